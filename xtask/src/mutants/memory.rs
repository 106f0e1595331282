//! The mutants of `crates/memory`, as those of the other crates in `table.rs`.

use super::table::{Mutant, Test, it, mutant};

const fn memory(name: &'static str) -> Test {
    it("cuhold-memory", name)
}

/// Of the tests inside the crate.
const fn memory_lib(name: &'static str) -> Test {
    Test { package: "cuhold-memory", target: "lib", name }
}

pub(super) const MUTANTS: &[Mutant] = &[
    // Copies, and where they run.
    mutant(
        "captured-work",
        "safe work is refused on a stream that somebody captures",
        memory("buffer::safe_work_never_becomes_part_of_somebody_s_capture"),
    ),
    mutant(
        "retire",
        "host memory of a dropped copy is kept until the copy is done",
        memory("pending::a_dropped_copy_keeps_its_memory_until_it_is_done"),
    ),
    mutant(
        "leak",
        "host memory whose copy can't be waited for is leaked",
        memory("pending::after_a_fatal_error_memory_is_leaked_not_freed"),
    ),
    mutant(
        "across-back",
        "what is queued later on the other stream waits for a copy between two homes",
        memory("home::what_is_queued_on_the_source_s_home_after_a_copy_across_waits_for_the_copy"),
    ),
    mutant(
        "source-order",
        "a source that is to be read during the call is refused where nobody promises that",
        memory(
            "batch::a_source_that_is_to_be_read_during_the_call_is_refused_where_nobody_can_promise_that",
        ),
    ),
    mutant(
        "staging-settle",
        "staging memory that a copy may use isn't used for another one",
        memory(
            "staging::staging_memory_that_a_copy_may_still_use_is_ended_once_the_stream_is_done",
        ),
    ),
    mutant(
        "staging-leak",
        "staging memory whose copy can't be waited for is leaked",
        memory(
            "staging::staging_memory_whose_stream_is_never_known_to_be_done_is_leaked_with_a_warning",
        ),
    ),
    // Buffers and their home streams.
    mutant(
        "home",
        "a stream that may end before the memory does is no home",
        memory("buffer::a_stream_that_nobody_keeps_alive_is_no_home"),
    ),
    mutant(
        "home-order",
        "a stream that takes a buffer over waits for the one that had it",
        memory("home::memory_that_is_closed_behind_another_stream_is_freed_after_its_work"),
    ),
    mutant(
        "home-reach",
        "a stream of a device that doesn't reach the memory is no home",
        memory(
            "buffer::a_buffer_moves_between_contexts_of_its_device_but_not_to_a_device_without_access",
        ),
    ),
    mutant(
        "owner-wait",
        "somebody else's memory is let go of once the work on it is done",
        memory("foreign::an_owner_is_let_go_of_once_the_home_stream_s_work_is_done"),
    ),
    // The caching resource.
    mutant(
        "left-stream",
        "what is cached for a stream goes back when nobody else has the stream any more",
        memory("caching::basic::a_stream_that_is_left_gives_back_what_was_cached_for_it"),
    ),
    mutant(
        "cache-order",
        "a stream that gets another one's memory waits for its work",
        memory("caching::basic::memory_of_one_stream_serves_another_behind_its_work"),
    ),
    mutant(
        "cache-barrier",
        "who takes another thread's memory lets it pass a barrier first",
        Test {
            package: "cuhold-memory",
            target: "caching_duel",
            name: "duel::with_the_barrier_a_block_is_never_with_two",
        },
    ),
    mutant(
        "cache-wait",
        "who takes another thread's memory waits until that isn't at it",
        Test {
            package: "cuhold-memory",
            target: "caching_model",
            name: "model::a_block_is_with_one_at_a_time_however_a_thief_comes_in_between",
        },
    ),
    mutant(
        "cache-refused",
        "memory whose free a capture refuses stays cached",
        memory("caching::capture::a_give_back_that_a_capture_refuses_loses_nothing"),
    ),
    // Pools, their peers, and graph memory.
    mutant(
        "pool-undo",
        "a pool that couldn't be set up is destroyed",
        memory("pool::where_the_threshold_is_refused_no_pool_stays"),
    ),
    mutant(
        "pool-users",
        "a pool ends after the work of the streams on which its memory was freed",
        memory("pool_end::a_pool_ends_once_the_streams_that_freed_its_memory_are_done"),
    ),
    mutant("pool-hold", "memory holds its pool", memory("pool::memory_keeps_its_pool")),
    mutant(
        "pool-current",
        "a pool that was made current is never destroyed",
        memory(
            "pool_end::pools_that_were_current_leave_a_stream_usable_whoever_had_memory_of_them",
        ),
    ),
    mutant(
        "whole-wait",
        "all work of a context is waited for",
        memory("peers::a_peer_is_removed_once_its_work_is_done"),
    ),
    mutant(
        "peer-reach",
        "a device is asked whether it can reach a pool's memory before it is let",
        memory(
            "peers::a_device_that_can_not_reach_the_memory_is_refused_by_name_and_nothing_changes",
        ),
    ),
    mutant(
        "peer-wait",
        "a peer's work is waited for before the memory is taken out of its reach",
        memory("peers::a_peer_is_removed_once_its_work_is_done"),
    ),
    mutant(
        "peer-users",
        "a pool ends after the work of its peers",
        memory(
            "peers::a_pool_s_end_waits_for_all_work_of_its_peers_before_it_takes_their_access_away",
        ),
    ),
    mutant(
        "peer-outlived",
        "memory that was given away stays in reach of its pool's peers",
        memory("peers::memory_that_was_given_away_stays_in_reach_of_its_pool_s_peers"),
    ),
    mutant(
        "graph-capture",
        "graph memory is freed in its own capture alone",
        memory("resource::graph_memory_is_not_freed_in_another_capture_than_its_own"),
    ),
    // Virtual memory.
    mutant(
        "virtual-home",
        "virtual memory is unmapped after the work of its home stream",
        memory(
            "virtual_memory::scenario::a_range_is_unmapped_after_the_fills_and_copies_of_its_home_stream",
        ),
    ),
    mutant(
        "virtual-mark",
        "a dropped buffer of virtual memory marks what its home stream has queued by then",
        memory(
            "virtual_memory::scenario::what_becomes_of_the_home_stream_after_a_buffer_was_dropped_does_not_keep_it_mapped",
        ),
    ),
    mutant(
        "virtual-leak",
        "virtual memory whose work can't be waited for stays mapped",
        memory("virtual_memory::scenario::a_range_whose_work_can_t_be_waited_for_stays_mapped"),
    ),
    mutant(
        "virtual-undo",
        "of a growth that failed nothing is left",
        memory(
            "virtual_memory::grow::a_growth_that_fails_at_any_call_leaves_the_old_buffer_readable_and_writable",
        ),
    ),
    mutant(
        "virtual-dirty",
        "addresses of which it isn't known what is mapped there aren't used again",
        memory(
            "virtual_memory::grow::what_an_undo_can_t_undo_is_part_of_the_error_and_its_addresses_are_not_used_again",
        ),
    ),
    mutant(
        "access-wait",
        "access is taken away once the work that has it is done",
        memory(
            "virtual_memory::access::more_access_is_given_at_once_and_less_once_the_work_is_done",
        ),
    ),
    mutant(
        "access-undo",
        "a change of access that fails at a part is taken back at the others",
        memory("virtual_memory::access::a_change_of_access_that_fails_at_a_part_changes_nothing"),
    ),
    // Memory of other processes.
    mutant(
        "import-adoption",
        "a mapping that another import took over isn't freed",
        memory_lib(
            "ipc::cache_tests::a_mapping_that_is_imported_again_before_its_last_import_has_ended_it_is_not_freed",
        ),
    ),
    mutant(
        "import-registry",
        "a pool that is imported twice shares what is mapped",
        memory("ipc::imports::a_pool_that_is_imported_twice_shares_what_is_mapped"),
    ),
    mutant(
        "import-order",
        "an import that ends on another stream than the freeing one leaves its order behind",
        memory("ipc::imports::exact_counts_of_imports_and_their_ends"),
    ),
    mutant(
        "import-captured",
        "no event of an import's end is recorded in somebody's capture",
        memory(
            "ipc::order::where_an_import_s_own_stream_is_captured_no_event_joins_the_capture_and_the_memory_stays_mapped",
        ),
    ),
    mutant(
        "import-leak",
        "imported memory that unordered work may use is never freed, although it is imported again",
        memory(
            "ipc::order::where_the_freeing_stream_is_captured_the_memory_stays_mapped_and_the_capture_goes_on",
        ),
    ),
    mutant(
        "import-undo",
        "an import that couldn't be handed out is freed",
        memory(
            "ipc::faults::an_import_whose_mode_is_not_put_back_is_undone_and_a_failing_undo_is_a_note",
        ),
    ),
    mutant(
        "exporter-ended",
        "nothing is imported from a process that has ended",
        memory(
            "ipc::scenario::once_the_exporter_has_ended_nothing_new_is_imported_and_what_is_imported_goes_on",
        ),
    ),
];
