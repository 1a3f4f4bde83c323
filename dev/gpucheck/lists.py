# SPDX-License-Identifier: MIT
"""Which tests of tests/gpu run at the same time, under compute-sanitizer and under MPS, and why others do not.
tests/lint/gpu_check.py checks that each pattern matches a test."""
import re

# Tests that measure and must run alone; and tests for one GPU, which run on the second GPU if there are two.
MEASURED = re.compile(r"^(call_timing|copy_timing|driver_behaviour)\.")
ANYWHERE = re.compile(r"^(ahead|frame_streams|ahead_lost|channel|crash|reader_death|writer_death|fallback|capture_guards|deferred_release|capture_own_thread|driver_ipc|stream_memops"
                      r"|cipd_(ahead|capture|channel|no_events|keep_finished|info|soak|overwrite_check|other_programs|reader|errors|send|sessions))\.")
TOGETHER = re.compile(r"^(multi_gpu|peer_copy|copy)\.")  # the sanitized tests that need several GPUs
# Tests that take most of the memory, or measure how long cleaning up after a death takes.
ALONE = re.compile(r"^writer_death\.(a_writer_of_most_of_the_memory|a_killed_writers_ready_frames)"
                   r"|^reader_death\.a_killed_reader_gives_its_slots")
# Without those that use an unknown user, whom the driver refuses, or a channel in the test's own process, where the driver's
# threads would remain.
CONTAINERS = [f"containers.{name}*" for name in ("frames", "a_reader", "between", "different", "times", "nobody_looks")]
# Tests of tests/multi with channels on a GPU. Always: those that count descriptors and mappings while processes are stopped,
# because NVIDIA's driver has some of its own. With --long also those that do not need many processes.
BETWEEN = re.compile(r"^(stopped)\.")
BETWEEN_LONG = re.compile(r"^(memory_release|reader_fd|formats|invalid_calls|handoff|in_order|policy|restart|send|wait)\.(?!sixty_four)")

# Tests that always run under compute-sanitizer: kernels and copies on shared memory and words.
SANITIZED = re.compile(r"^(memory\.(made|mapped)|stream_signals\.|channel\.|send_fetch\.|multi_gpu\.|peer_copy\.(?!what_may_not_be_asked)|copy\.copies_(in|of|between)"
                       r"|ahead\.(the_stream|a_frame_that|three)|graph\.(frames|rows|formats)|torn_frames\."
                       r"|cipd_channel\.cipd_(frames_|formats|slot_counts|a_writer_is_read)|cipd_send\.cipd_(frames_|sends_that_come|sends_on)"
                       r"|cipd_ahead\.cipd_a_stream_may|cipd_overwrite_check\.cipd_(a_copy_that_ended_in_time|copies_of_a_reader)"
                       r"|cipd_reader\.two_readers|cipd_sessions\.cipd_a_frame_of_a_session)")

# Tests whose kernels and copies write out of bounds on purpose.
BREAKS = (r"^crash\.(a_writer_whose_kernel_crashed|a_writer_that_waits_for_a_slot_learns_of_a_crash|a_reader_whose_kernel_stored"
          r"|a_reader_that_only_acquires)|^context_lost\.(a_kernel_crashes|begin_ends|a_wait_for_a_slot_ends)|^ahead_lost\.a_writer_whose_kernel_crashed"
          r"|^(memory|kernels)\.a_kernel_that_stores|^memory\.it_outlives")
NOT_SANITIZED = (
    (MEASURED.pattern, "it measures calls, and would measure the tool"),
    (BREAKS, "it makes on purpose the errors that the tool finds"),
    (r"^capture_guards\.", "its roles break captures on purpose, one process after the other; capture_other_thread, capture_own_thread and cipd_capture are looked at"),
    (r"^writer_death\.a_writer_of_most_of_the_memory", "it takes the memory that the tool needs"),
    (r"^cipd_info\.cipd_(settings_|a_writer_that_holds_the_barrier)|^peer_copy\.what_may_not_be_asked", "it uses no GPU, which the tool reports as a failure"),
    (r"^device\.gpus_that_are_hidden", "the tool initialises the GPUs before the test hides them"),
    # Stacks on an H100 show the tool in cuStreamSynchronize and cuStreamDestroy.
    (r"^cipd_overwrite_check\..*(ended_too_late|just_in_time)|^send_errors\.a_late_frame_has_no_stream|^stream\.a_stream_does_not_wait_for_the_default"
     r"|^launches\.(a_thousand_launches|host_arrays_of_four)|^kernels\.launches_beside_a_host_array",
     "when it waits for a stream or destroys it, the tool waits for all streams, one of which is blocked"),
)
# The tool must find an error in this test, in a process that the test starts; this shows that it works.
CONTROL = "crash.a_writer_whose_kernel_crashed_gets_the_error_from_commit"

KILLS = re.compile(r"^(reader_death|writer_death|crash|cipd_soak|migration)\.|killed")  # run these alone: the death of a client may disturb others
NOT_UNDER_MPS = (
    (MEASURED.pattern, "it measures calls, which the benches also do under MPS"),
    (BREAKS, "under MPS a fault ends the work of all clients"),
    (r"^ahead\.(?!a_frame_that_is_ready|under_mps)|^ahead_lost\.|^cipd_ahead\.|^multi_gpu\.a_stream_of_another_gpu_waits|^tickets\.a_frame_taken_ahead"
     r"|^unreported_loss\.all_of_many_lost_frames|^capture_guards\.each_guard_of_cipd|^per_thread_stream\.another_threads_stream_does_not_follow"
     r"|^frame_access\.(a_word_that_was_poisoned|a_frame_from_before)|^migration\.(no_stream_waits|a_stream_of_the_next_gpu)", "under MPS no frame is acquired ahead"),
    (r"^stream_signals\.a_graph_takes_in_no_signal", "under MPS streams share queues: a blocked one delays others"),
    # On an H100 the surviving processes got CUDA_ERROR_ILLEGAL_ADDRESS.
    (r"^reader_death\.(a_killed_reader_gives|a_reader_that_leaves_in_a_hurry)|^writer_death\.a_killed_writers_ready|^stream_memops\.the_work_of_a_killed"
     r"|^crash\.a_writer_whose_kernel_never_ends|^migration\.frames_that_the_last_gpu_never", "under MPS killing a process with work on the GPU may break the contexts of other clients"),
)


def why_not(name, reasons):
    """Returns the reason why the test does not run, or None."""
    return next((why for pattern, why in reasons if re.search(pattern, name)), None)
