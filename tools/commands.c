/* SPDX-License-Identifier: MIT */
#include "commands.h"

const struct command *const commands[] = {
    &ls_command,   &info_command,   &top_command, &web_command,    &play_command, &view_command,  &record_command,
    &snap_command, &bridge_command, &run_command, &doctor_command, &demo_command, &bench_command,
};
const size_t command_count = sizeof commands / sizeof commands[0];
