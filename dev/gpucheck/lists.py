# SPDX-License-Identifier: MIT
"""Which tests of tests/gpu can be had where, by their names: together, under compute-sanitizer, under MPS; and why others cannot.
tests/lint/gpu_check.py sees to it that each line is about a test that there is."""
import re

# What must be alone to be measured, and what needs no more than one GPU: where there are two, the second does that
# while the first does the rest.
MEASURED = re.compile(r"^(call_timing|copy_timing|driver_behaviour)\.")
ANYWHERE = re.compile(r"^(ahead|ahead_lost|channel|crash|reader_death|writer_death|fallback|capture_guards|deferred_release|capture_own_thread|driver_ipc|stream_memops"
                      r"|cipd_(ahead|capture|channel|no_events|keep_finished|info|soak|overwrite_check|other_programs|reader|errors|send|sessions))\.")
TOGETHER = re.compile(r"^(multi_gpu|peer_copy|copy)\.")  # needs more than one, as far as it is sanitized
# What takes most of the memory, and what tells how long a death takes.
ALONE = re.compile(r"^writer_death\.(a_writer_of_most_of_the_memory|a_killed_writers_ready_frames)"
                   r"|^reader_death\.a_killed_reader_gives_its_slots")
# Not those with a process that is no user, to whom the driver is shut, or with a channel in the test's own process,
# where the driver's threads stay.
CONTAINERS = [f"containers.{name}*" for name in ("frames", "a_reader", "between", "different", "times", "nobody_looks")]
# Of tests/multi, with channels on a GPU. In any run: what counts descriptors and mappings while processes are stopped, of which
# NVIDIA's driver has some of its own. With --long also what does not need a process for each of many readers.
BETWEEN = re.compile(r"^(stopped)\.")
BETWEEN_LONG = re.compile(r"^(memory_release|reader_fd|formats|invalid_calls|handoff|in_order|policy|restart|send|wait)\.(?!sixty_four)")

# What compute-sanitizer looks at in any run: kernels and copies on memory and words that are shared.
SANITIZED = re.compile(r"^(memory\.(made|mapped)|stream_signals\.|channel\.|send_fetch\.|multi_gpu\.|peer_copy\.(?!what_may_not_be_asked)|copy\.copies_(in|of|between)"
                       r"|ahead\.(the_stream|a_frame_that|three)|graph\.(frames|rows|formats)|torn_frames\."
                       r"|cipd_channel\.cipd_(frames_|formats|slot_counts|a_writer_is_read)|cipd_send\.cipd_(frames_|sends_that_come|sends_on)"
                       r"|cipd_ahead\.cipd_a_stream_may|cipd_overwrite_check\.cipd_(a_copy_that_ended_in_time|copies_of_a_reader)"
                       r"|cipd_reader\.two_readers|cipd_sessions\.cipd_a_frame_of_a_session)")

# Kernels and copies that store where they may not.
BREAKS = (r"^crash\.(a_writer_whose_kernel_crashed|a_writer_that_waits_for_a_slot_learns_of_a_crash|a_reader_whose_kernel_stored"
          r"|a_reader_that_only_acquires)|^context_lost\.(a_kernel_crashes|begin_ends|a_wait_for_a_slot_ends)|^ahead_lost\.a_writer_whose_kernel_crashed"
          r"|^memory\.(a_kernel_that_stores|it_outlives)")
NOT_SANITIZED = (
    (MEASURED.pattern, "it measures what calls cost, and would measure the tool"),
    (BREAKS, "what it does on purpose is what the tool looks for"),
    (r"^capture_guards\.", "its roles break captures on purpose, one process after the other; capture_other_thread, capture_own_thread and cipd_capture are looked at"),
    (r"^writer_death\.a_writer_of_most_of_the_memory", "it takes the memory that the tool needs"),
    (r"^cipd_info\.cipd_(settings_|a_writer_that_holds_the_barrier)|^peer_copy\.what_may_not_be_asked", "it uses no GPU: the tool looks at nothing, and takes that for a failure"),
    (r"^device\.gpus_that_are_hidden", "the tool has seen the GPUs before the test hides them"),
    # Seen by stacks on an H100: within cuStreamSynchronize and cuStreamDestroy, in the tool.
    (r"^cipd_overwrite_check\..*(ended_too_late|just_in_time)|^send_errors\.a_late_frame_has_no_stream|^stream\.a_stream_does_not_wait_for_the_default",
     "where it waits for one stream, or destroys it, the tool waits for all, and one stands at a gate"),
)
# The tool must find something in this one, in a process that the test has started, or it sees nothing anywhere.
CONTROL = "crash.a_writer_whose_kernel_crashed_gets_the_error_from_commit"

KILLS = re.compile(r"^(reader_death|writer_death|crash|cipd_soak|migration)\.|killed")  # in no other test's way: that a client dies may disturb others
NOT_UNDER_MPS = (
    (MEASURED.pattern, "it measures what calls cost: the benches do, under MPS, too"),
    (BREAKS, "under MPS a fault ends the work of all clients"),
    (r"^ahead\.(?!a_frame_that_is_ready|under_mps)|^ahead_lost\.|^cipd_ahead\.|^multi_gpu\.a_stream_of_another_gpu_waits|^tickets\.a_frame_taken_ahead"
     r"|^unreported_loss\.all_of_many_lost_frames|^capture_guards\.each_guard_of_cipd|^per_thread_stream\.another_threads_stream_does_not_follow"
     r"|^frame_access\.(a_word_that_was_poisoned|a_frame_from_before)|^migration\.(no_stream_waits|a_stream_of_the_next_gpu)", "under MPS nothing is taken ahead"),
    (r"^stream_signals\.a_graph_takes_in_no_signal", "under MPS streams share queues: one that stands at a gate holds up another"),
    # Seen on an H100: CUDA_ERROR_ILLEGAL_ADDRESS in the processes that live on.
    (r"^reader_death\.(a_killed_reader_gives|a_reader_that_leaves_in_a_hurry)|^writer_death\.a_killed_writers_ready|^stream_memops\.the_work_of_a_killed"
     r"|^crash\.a_writer_whose_kernel_never_ends|^migration\.frames_that_the_last_gpu_never", "under MPS who is killed while the GPU works for it takes other clients' contexts along"),
)


def why_not(name, reasons):
    """None: there is no reason."""
    return next((why for pattern, why in reasons if re.search(pattern, name)), None)
