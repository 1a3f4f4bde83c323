/* SPDX-License-Identifier: MIT
 *
 * The channels there are, as devices: each is a source. A thread waits for channels that come and go.
 */
#include "devices.h"

#include "format.h"
#include "gpu.h"

#define MAX_CHANNELS 256

/* ---- a device ---- */

struct _GstSluiceDevice {
    GstDevice parent;
    gchar *channel;
};

G_DEFINE_TYPE(GstSluiceDevice, gst_sluice_device, GST_TYPE_DEVICE)

static GstElement *create_element(GstDevice *device, const gchar *name)
{
    GstElement *element = gst_element_factory_make("sluicesrc", name);

    if (element)
        g_object_set(element, "channel", GST_SLUICE_DEVICE(device)->channel, NULL);
    return element;
}

static gboolean reconfigure_element(GstDevice *device, GstElement *element)
{
    if (g_strcmp0(G_OBJECT_TYPE_NAME(element), "GstSluiceSrc") != 0)
        return FALSE;
    g_object_set(element, "channel", GST_SLUICE_DEVICE(device)->channel, NULL);
    return TRUE;
}

static void device_finalize(GObject *object)
{
    g_free(GST_SLUICE_DEVICE(object)->channel);
    G_OBJECT_CLASS(gst_sluice_device_parent_class)->finalize(object);
}

static void gst_sluice_device_class_init(GstSluiceDeviceClass *class)
{
    GST_DEVICE_CLASS(class)->create_element = create_element;
    GST_DEVICE_CLASS(class)->reconfigure_element = reconfigure_element;
    G_OBJECT_CLASS(class)->finalize = device_finalize;
}

static void gst_sluice_device_init(GstSluiceDevice *self)
{
    (void)self;
}

/* The caps of the channel's first image; NULL if it has none that a pipeline can show. */
static GstCaps *caps_of(const struct sluice_channel_info *info)
{
    struct gst_sluice_format format;
    gboolean on_gpu = info->memory != SLUICE_MEMORY_HOST;

    if (on_gpu && !gst_sluice_gpu_is_built())
        return NULL;
    for (guint32 i = 0; i < info->format.array_count; i++)
        if (gst_sluice_format_from_image(&format, &info->format.arrays[i].image)) {
            GstCaps *caps = gst_sluice_format_caps(&format, 0, 1);
            if (on_gpu)
                gst_sluice_gpu_mark_caps(caps);
            return caps;
        }
    return NULL;
}

static GstDevice *device_new(const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };
    GstCaps *caps;

    if (sluice_channel_info(channel, SLUICE_DEFAULT, &info, NULL, 0) != 0 || !(caps = caps_of(&info)))
        return NULL;
    GstStructure *properties =
        gst_structure_new("sluice-proplist", "sluice.channel", G_TYPE_STRING, channel, "sluice.program", G_TYPE_STRING,
                          info.program, "sluice.pid", G_TYPE_UINT, info.pid, NULL);
    GstSluiceDevice *device = g_object_new(gst_sluice_device_get_type(), "display-name", channel, "caps", caps,
                                           "device-class", "Video/Source", "properties", properties, NULL);
    device->channel = g_strdup(channel);
    gst_structure_free(properties);
    gst_caps_unref(caps);
    return GST_DEVICE(device);
}

/* ---- the provider ---- */

struct _GstSluiceDeviceProvider {
    GstDeviceProvider parent;
    sluice_watch *watch;
    GstPoll *poll;
    GstPollFD fd;
    GThread *thread;
};

G_DEFINE_TYPE(GstSluiceDeviceProvider, gst_sluice_device_provider, GST_TYPE_DEVICE_PROVIDER)
GST_DEVICE_PROVIDER_REGISTER_DEFINE(sluicedeviceprovider, "sluicedeviceprovider", GST_RANK_SECONDARY,
                                    gst_sluice_device_provider_get_type())

/* Calls `each` for the name of each channel with a writer. */
static void for_each_channel(void (*each)(const char *name, gpointer user), gpointer user)
{
    struct sluice_registry_entry *entries = g_new(struct sluice_registry_entry, MAX_CHANNELS);
    size_t count = 0;

    if (sluice_registry_list(NULL, entries, MAX_CHANNELS, &count) == 0)
        for (size_t i = 0; i < MIN(count, MAX_CHANNELS); i++)
            if (entries[i].live)
                each(entries[i].name, user);
    g_free(entries);
}

static void probe_one(const char *name, gpointer list)
{
    GstDevice *device = device_new(name);

    if (device)
        *(GList **)list = g_list_prepend(*(GList **)list, gst_object_ref_sink(device));
}

static GList *probe(GstDeviceProvider *provider)
{
    GList *list = NULL;

    (void)provider;
    for_each_channel(probe_one, &list);
    return g_list_reverse(list);
}

static void note_name(const char *name, gpointer names)
{
    g_hash_table_add(names, g_strdup(name));
}

static void add_new(gpointer name, gpointer unused, gpointer user)
{
    GstDevice *device = device_new(name);

    (void)unused;
    if (device)
        gst_device_provider_device_add(user, device);
}

static void hold(gpointer device, gpointer unused)
{
    (void)unused;
    gst_object_ref(device);
}

/* Compares the devices with the channels there are. */
static void update(GstSluiceDeviceProvider *self)
{
    GHashTable *names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GstDeviceProvider *provider = GST_DEVICE_PROVIDER(self);

    for_each_channel(note_name, names);
    GST_OBJECT_LOCK(self);
    GList *devices = g_list_copy(provider->devices);
    g_list_foreach(devices, hold, NULL);
    GST_OBJECT_UNLOCK(self);
    for (GList *at = devices; at; at = at->next)
        if (!g_hash_table_remove(names, GST_SLUICE_DEVICE(at->data)->channel))
            gst_device_provider_device_remove(provider, at->data);
    g_list_free_full(devices, gst_object_unref);
    g_hash_table_foreach(names, add_new, provider);
    g_hash_table_unref(names);
}

static gpointer follow(gpointer data)
{
    GstSluiceDeviceProvider *self = data;

    while (gst_poll_wait(self->poll, GST_CLOCK_TIME_NONE) >= 0)
        if (sluice_registry_watch_next(self->watch, 0) == 0)
            update(self);
    return NULL;
}

static gboolean start(GstDeviceProvider *provider)
{
    GstSluiceDeviceProvider *self = GST_SLUICE_DEVICE_PROVIDER(provider);

    if (sluice_registry_watch_open(&self->watch, NULL) != 0) {
        GST_WARNING_OBJECT(self, "%s", sluice_last_error());
        return FALSE;
    }
    update(self);
    self->poll = gst_poll_new(TRUE);
    gst_poll_fd_init(&self->fd);
    self->fd.fd = sluice_registry_watch_fd(self->watch);
    gst_poll_add_fd(self->poll, &self->fd);
    gst_poll_fd_ctl_read(self->poll, &self->fd, TRUE);
    self->thread = g_thread_new("sluice-devices", follow, self);
    return TRUE;
}

static void stop(GstDeviceProvider *provider)
{
    GstSluiceDeviceProvider *self = GST_SLUICE_DEVICE_PROVIDER(provider);

    gst_poll_set_flushing(self->poll, TRUE);
    g_thread_join(self->thread);
    gst_poll_free(self->poll);
    sluice_registry_watch_close(&self->watch);
}

static void gst_sluice_device_provider_class_init(GstSluiceDeviceProviderClass *class)
{
    GstDeviceProviderClass *provider = GST_DEVICE_PROVIDER_CLASS(class);

    provider->probe = probe;
    provider->start = start;
    provider->stop = stop;
    gst_device_provider_class_set_static_metadata(provider, "Sluice channels", "Video/Source",
                                                  "The Sluice channels that have a writer, and those that come and go",
                                                  "The Sluice authors");
}

static void gst_sluice_device_provider_init(GstSluiceDeviceProvider *self)
{
    (void)self;
}
