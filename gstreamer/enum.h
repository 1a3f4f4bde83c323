/* SPDX-License-Identifier: MIT */
#ifndef GST_SLUICE_ENUM_H
#define GST_SLUICE_ENUM_H

#include <glib-object.h>

/* The type of a property with named values, which the first call registers and keeps in `type`. Thread: any. */
GType gst_sluice_enum_type(gsize *type, const char *name, const GEnumValue *values);

#endif
