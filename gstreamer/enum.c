/* SPDX-License-Identifier: MIT */
#include "enum.h"

GType gst_sluice_enum_type(gsize *type, const char *name, const GEnumValue *values)
{
    if (g_once_init_enter(type))
        g_once_init_leave(type, g_enum_register_static(name, values));
    return *type;
}
