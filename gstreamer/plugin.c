/* SPDX-License-Identifier: MIT
 *
 * The plug-in "sluice": sluicesrc, sluicesink, and channels as devices.
 */
#include "devices.h"
#include "meta.h"
#include "sink.h"
#include "source.h"

static gboolean plugin_init(GstPlugin *plugin)
{
    gst_sluice_meta_register();
    return GST_ELEMENT_REGISTER(sluicesrc, plugin) && GST_ELEMENT_REGISTER(sluicesink, plugin) &&
           GST_DEVICE_PROVIDER_REGISTER(sluicedeviceprovider, plugin);
}

#define PACKAGE "sluice"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, sluice, "Frames between processes, without copying",
                  plugin_init, SLUICE_PLUGIN_VERSION, "MIT/X11", "Sluice", "https://github.com/sluice")
