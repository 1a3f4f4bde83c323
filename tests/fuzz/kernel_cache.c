/* SPDX-License-Identifier: MIT
 *
 * Entries of the cache of kernels, and the descriptions of kernels in compiled bytes. An input is an entry after a
 * byte: if that is odd, the entry's magic and checksum are made right, and it has the key that is looked for.
 */
#include "fuzz.h"
#include "kernel/cache.h"

static const char *const names[] = { "blur", "scale<float>" };
static const struct sl_source source = { .name = "fx.cu", .text = "", .kernels = names, .kernel_count = 2 };

static void check_code(struct sl_code *code)
{
    char type[SL_TYPE_NAME];
    uint32_t at = 0; /* in the names: those without a symbol are left out */

    REQUIRE(code->kernel_count >= 1);
    touch(code->bytes, code->size);
    touch(code->log, strlen(code->log));
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        const struct sl_description *kernel = &code->kernels[k];
        while (at < 2 && strcmp(kernel->name, names[at]) != 0)
            at++;
        REQUIRE(at++ < 2 && kernel->count <= SLUICE_MAX_PARAMETERS);
        touch(kernel->symbol, strlen(kernel->symbol));
        for (uint32_t i = 0; i < kernel->count; i++) {
            const struct sluice_parameter *parameter = &kernel->parameters[i];
            REQUIRE(parameter->kind >= SLUICE_PARAMETER_NUMBER && parameter->kind <= SLUICE_PARAMETER_OUT);
            REQUIRE(parameter->bytes > 0 && parameter->constant <= 1);
            REQUIRE(strlen(sl_parameter_type(parameter, type)) > 0);
        }
    }
    sl_code_free(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t head = 32; /* its key's size is at 24 */
    struct input input = { data, size };
    bool seal = take_byte(&input) & 1;
    size_t room = input.left;
    char *entry = malloc(room ? room : 1);
    struct sl_code code;
    uint64_t key = 4;

    REQUIRE(entry);
    take(&input, entry, room);
    if (seal && room >= head) {
        sl_cache_seal(entry, room);
        memcpy(&key, entry + 24, sizeof key);
    }
    if (key <= room && room >= head + key && sl_cache_read(&source, entry + head, key, entry, room, &code))
        check_code(&code);
    else if (sl_cache_read(&source, "key", 4, entry, room, &code))
        check_code(&code);
    free(entry);
    return 0;
}
