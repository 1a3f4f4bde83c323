/* SPDX-License-Identifier: MIT */
#ifndef GST_SLUICE_DEVICES_H
#define GST_SLUICE_DEVICES_H

#include <gst/gst.h>

G_DECLARE_FINAL_TYPE(GstSluiceDevice, gst_sluice_device, GST, SLUICE_DEVICE, GstDevice)
G_DECLARE_FINAL_TYPE(GstSluiceDeviceProvider, gst_sluice_device_provider, GST, SLUICE_DEVICE_PROVIDER,
                     GstDeviceProvider)
GST_DEVICE_PROVIDER_REGISTER_DECLARE(sluicedeviceprovider)

#endif
