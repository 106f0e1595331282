//! The mutants: each mechanism of the failure policy that can be taken out, and the test that must then fail.
//!
//! The name stands in the sources as `mutant::is_out("NAME")`, at the mechanism; a test compares the two. Those of
//! `crates/memory` stand in `memory.rs`.

/// One mechanism.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutant {
    pub(super) name: &'static str,
    /// What is missing when it is taken out.
    pub(super) without: &'static str,
    /// The test that notices.
    pub(super) test: Test,
}

/// A test, by the binary that holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Test {
    pub(super) package: &'static str,
    /// `lib` for the tests inside the crate, else the name of its test binary.
    pub(super) target: &'static str,
    /// The test's whole name, as the harness lists it.
    pub(super) name: &'static str,
}

/// Of the crate's test binary `it`.
pub(super) const fn it(package: &'static str, name: &'static str) -> Test {
    Test { package, target: "it", name }
}

const fn handles(name: &'static str) -> Test {
    it("cuhold-handles", name)
}

const fn graph(name: &'static str) -> Test {
    it("cuhold-graph", name)
}

/// Of the bridge's own tests.
const fn cudarc(name: &'static str) -> Test {
    Test { package: "cuhold-cudarc", target: "lib", name }
}

pub(super) const fn mutant(name: &'static str, without: &'static str, test: Test) -> Mutant {
    Mutant { name, without, test }
}

pub(super) const MUTANTS: &[Mutant] = &[
    // Marks.
    mutant(
        "mark-captured",
        "an event that may mark work of a capture isn't used again",
        handles("mark::an_event_that_may_mark_work_of_a_capture_is_not_used_again"),
    ),
    mutant(
        "mark-failed",
        "an event whose call failed isn't used again",
        handles("mark::an_event_whose_call_failed_is_not_used_again"),
    ),
    mutant(
        "mark-end",
        "idle events end before their context",
        handles("mark::idle_events_end_before_their_context"),
    ),
    mutant(
        "mark-context",
        "an event is recorded on streams of its own context alone",
        handles("mark::events_stay_in_their_context_and_are_recorded_on_its_streams_alone"),
    ),
    // The scoped operations.
    mutant(
        "activation",
        "an operation whose context couldn't be made current isn't run",
        handles(
            "scope::cleanup::where_the_question_or_the_activation_fails_the_destroy_is_skipped_and_the_object_leaks",
        ),
    ),
    mutant(
        "put-back",
        "the pop after a push that was made although it failed",
        handles(
            "scope::run::where_the_activation_fails_an_operation_is_not_run_and_what_moved_is_put_back",
        ),
    ),
    mutant(
        "restore",
        "the caller's context is put back",
        handles("scope::run::an_operation_runs_in_its_context_and_the_caller_s_is_back"),
    ),
    mutant(
        "restore-unwinding",
        "the same while a panic passes through",
        handles("scope::panics::a_panic_inside_finds_the_caller_s_context_put_back_and_goes_on"),
    ),
    mutant(
        "restore-error",
        "a restore that alone failed is returned",
        handles(
            "scope::run::where_only_the_restore_fails_the_error_says_completed_and_what_is_current",
        ),
    ),
    mutant(
        "restore-note",
        "a restore that failed second is a note",
        handles("scope::run::where_the_operation_and_the_restore_fail_the_second_is_a_note"),
    ),
    mutant(
        "ask",
        "after a failed restore the driver is asked what is current",
        handles(
            "scope::run::where_only_the_restore_fails_the_error_says_completed_and_what_is_current",
        ),
    ),
    mutant(
        "strayed",
        "what a foreign closure left on the stack is taken off",
        handles(
            "scope::run::where_a_foreign_closure_changed_the_stack_the_caller_s_context_is_current_again",
        ),
    ),
    mutant(
        "undo",
        "what was created is destroyed where the caller's context isn't back",
        handles(
            "scope::create::where_only_the_restore_fails_a_destroy_that_needs_no_context_undoes_the_creation",
        ),
    ),
    mutant(
        "undo-safe",
        "an undo that needs its context isn't tried in another one",
        handles(
            "scope::create::where_it_is_not_known_what_is_current_an_object_that_needs_its_context_is_leaked_by_name",
        ),
    ),
    mutant(
        "undo-note",
        "an undo that failed is a note",
        handles("scope::create::a_failing_undo_is_a_note"),
    ),
    mutant(
        "leak-note",
        "an undo that was skipped says what is lost",
        handles(
            "scope::create::an_undo_whose_mode_is_refused_is_skipped_and_one_whose_mode_is_not_put_back_says_so",
        ),
    ),
    mutant(
        "context-undo",
        "a new context that can't be popped is destroyed",
        handles(
            "scope::create_context::where_the_pop_fails_the_new_context_is_ended_which_pops_it",
        ),
    ),
    mutant(
        "orphan",
        "a context that a failed creation pushed all the same is popped and ended",
        handles(
            "scope::create_context::where_the_creation_fails_an_orphan_that_it_pushed_is_popped_and_ended",
        ),
    ),
    mutant(
        "destroy-context",
        "a destroy that needs its context is made in it",
        handles(
            "scope::cleanup::a_destroy_that_needs_its_context_is_made_in_it_and_the_caller_s_is_back",
        ),
    ),
    // Captures.
    mutant(
        "bracket",
        "a destroy that is unsafe in captures is made in relaxed mode",
        handles(
            "drop::capture::a_drop_during_a_global_capture_leaves_it_active_whoever_makes_the_destroy",
        ),
    ),
    mutant(
        "bracket-refused",
        "where relaxed mode is refused the destroy isn't made",
        handles(
            "scope::cleanup::where_relaxed_mode_is_refused_the_destroy_is_skipped_and_the_object_leaks",
        ),
    ),
    mutant(
        "mode-restore",
        "the thread's capture mode is put back",
        handles("drop::capture::a_bracketed_destroy_leaves_the_thread_s_capture_mode_as_it_was"),
    ),
    mutant(
        "neutral-undo",
        "what was made in relaxed mode is undone where the mode isn't back",
        handles(
            "above::where_the_mode_is_not_put_back_what_was_made_is_undone_and_the_note_says_so",
        ),
    ),
    mutant(
        "exposure",
        "a stream whose raw value others have is asked whether it is captured",
        handles("host_fn::only_a_stream_that_others_may_capture_is_asked"),
    ),
    // How objects end.
    mutant(
        "report",
        "a destroy that fails in a `Drop` is reported",
        handles(
            "drop::fails::a_failing_destroy_in_a_drop_is_one_warning_with_call_object_status_and_fate",
        ),
    ),
    mutant(
        "callback",
        "what is dropped in a callback of ours goes to the reclaimer unasked",
        handles("drop::callback::what_is_dropped_in_a_host_function_ends_on_the_reclaimer"),
    ),
    mutant(
        "foreign-callback",
        "what is dropped in somebody else's callback goes to the reclaimer once the driver refused",
        handles(
            "drop::callback::what_is_dropped_in_a_callback_of_somebody_else_s_ends_on_the_reclaimer",
        ),
    ),
    mutant(
        "waiting",
        "a destroy that may wait for the GPU is left to the reclaimer",
        handles("drop::waits::by_hand_a_waiting_destroy_is_made_when_it_is_stepped"),
    ),
    mutant(
        "refused-value",
        "a close gives back what the driver was never asked to end",
        handles("close::code_whose_bracket_is_refused_comes_back_and_can_be_closed_again"),
    ),
    mutant(
        "identity",
        "handles are the same only where the object is, not where the raw value is",
        handles("close::a_new_object_with_the_raw_value_of_an_ended_one_is_another_object"),
    ),
    mutant(
        "null",
        "a null raw value is refused",
        handles("close::raw_values_that_name_no_object_of_their_own_are_refused"),
    ),
    mutant(
        "drop-panic",
        "a panic in the drop of a user's value is caught",
        handles("owner::an_owner_whose_drop_panics_is_one_warning"),
    ),
    mutant(
        "callback-panic",
        "a panic in a host function is reported",
        handles("host_fn::a_panic_in_a_closure_is_one_warning_and_the_stream_goes_on"),
    ),
    mutant(
        "publish",
        "a closure that the driver accepted stays its own, although an error follows",
        handles("host_fn::where_only_the_caller_s_context_is_lost_the_closure_runs_once"),
    ),
    mutant(
        "abandon",
        "a closure that a lost driver never calls goes with its stream",
        handles(
            "host_fn::a_closure_that_a_lost_driver_never_called_is_dropped_with_its_stream_and_reported",
        ),
    ),
    mutant(
        "record-undo",
        "an event that couldn't be recorded is ended",
        handles(
            "stream::an_event_that_could_not_be_recorded_is_ended_and_a_failure_of_that_is_a_note",
        ),
    ),
    mutant(
        "user-object",
        "what a graph kept is handed to the reclaimer where the driver lets go of it",
        handles(
            "scenario::graph::what_a_graph_kept_is_dropped_once_on_the_reclaimer_and_may_use_the_library",
        ),
    ),
    mutant(
        "green-wait",
        "a green context ends after the work of its streams",
        handles(
            "scenario::graph::a_green_context_ends_after_the_work_of_its_streams_although_their_handles_are_gone",
        ),
    ),
    mutant(
        "texture-context",
        "a texture, a number in one context, is made and ended in that context",
        handles("image::a_texture_ends_in_its_own_context_and_no_other_s_of_its_number_does"),
    ),
    // The driver value.
    mutant(
        "two-drivers",
        "objects of two drivers don't meet in one call",
        handles("pairs::objects_of_two_unrelated_drivers_never_meet_in_one_call"),
    ),
    mutant(
        "not-permitted",
        "an operation in a callback is refused before any call",
        handles("inside::every_operation_is_refused_in_a_callback_before_any_call_is_made"),
    ),
    mutant(
        "primary",
        "a primary context is retained once a device",
        handles("device::a_driver_retains_a_primary_context_once_and_gives_it_back_once"),
    ),
    mutant(
        "lost",
        "a fatal code marks the driver as lost",
        handles("stream::a_fatal_code_marks_the_driver_as_lost_and_no_other_does"),
    ),
    // Exit and fork.
    mutant(
        "fork-word",
        "the table looks whether the process is a forked child",
        it(
            "cuhold-driver-sys",
            "process::a_forked_child_hears_not_initialized_and_the_driver_hears_nothing",
        ),
    ),
    mutant(
        "fork-drop",
        "a drop in a forked child makes no call",
        handles("drop::process::in_a_forked_child_every_drop_is_silent_and_makes_no_call"),
    ),
    mutant(
        "exit-silence",
        "nothing is reported once exit began",
        handles("drop::process::once_exit_began_every_drop_is_silent"),
    ),
    mutant(
        "deinitialized",
        "a driver that is shutting down is not reported",
        handles("report::filter::that_the_driver_is_shutting_down_is_not_reported"),
    ),
    // The report channel.
    mutant(
        "unlock",
        "the channel's lock is free while a sink runs",
        handles("report::sink::no_lock_is_held_while_a_sink_runs"),
    ),
    mutant(
        "sink-panic",
        "a panic in a sink is caught",
        handles("report::sink::a_sink_that_panics_stays_and_hears_the_next_warning"),
    ),
    mutant(
        "fold",
        "after a fatal code an object has one more warning and no further",
        handles("report::filter::after_a_fatal_code_an_object_has_one_more_warning"),
    ),
    mutant(
        "once-id",
        "what was told once is known by the object's id, not by its raw value",
        handles("report::filter::once_is_by_call_status_and_id_although_raw_values_are_the_same"),
    ),
    mutant(
        "deny-drain",
        "a denial waits for the reclaimer before it answers",
        Test {
            package: "cuhold-handles",
            target: "lib",
            name: "report::guards::tests::what_is_pending_is_raised_before_a_denial_ends",
        },
    ),
    // Memory that isn't stream-ordered.
    mutant(
        "foreign-users",
        "memory is freed after the streams of other contexts that use it",
        handles(
            "memory::users::a_kernel_on_another_context_s_stream_is_waited_for_when_its_memory_is_dropped",
        ),
    ),
    mutant(
        "registered-leak",
        "host memory that may still be registered is leaked",
        handles("memory::registered_memory_is_leaked_where_it_could_not_be_unregistered"),
    ),
    // The bridge to cudarc.
    mutant(
        "cudarc-reclaimer",
        "what is kept of cudarc's ends on the reclaimer",
        cudarc(
            "held::tests::it_ends_on_the_reclaimer_in_its_context_and_what_was_current_is_so_again",
        ),
    ),
    mutant(
        "cudarc-error",
        "an error that cudarc stores is told",
        cudarc(
            "held::tests::an_error_that_its_drop_stores_is_a_warning_and_one_from_before_is_left_for_its_owner",
        ),
    ),
    mutant(
        "cudarc-stored",
        "what cudarc stored before is stored again",
        cudarc(
            "kept::tests::an_error_of_the_work_is_given_and_one_from_before_it_is_left_where_it_was",
        ),
    ),
    mutant(
        "cudarc-loan",
        "what cudarc still uses isn't ended",
        cudarc("loan::tests::a_loan_ends_once_nobody_has_the_other_value_and_a_weak_one_counts"),
    ),
    // Graphs by definition.
    mutant(
        "graph-operands",
        "what a node uses is kept from the call that adds it on",
        graph(
            "definition::scenario_s46_a_kernel_s_buffer_lives_as_long_as_an_executable_that_uses_it",
        ),
    ),
    mutant(
        "graph-copied",
        "what a copy or an executable may use stays although its node was removed",
        graph("definition::a_removed_node_lets_go_of_what_it_used_unless_a_copy_may_use_it"),
    ),
    mutant(
        "graph-cycle",
        "an edge that closes a cycle is refused before the driver is asked",
        graph("ownership::a_cycle_of_many_nodes_is_refused_before_the_driver_is_asked"),
    ),
    mutant(
        "graph-body",
        "what a conditional body can't hold is refused when it is added",
        graph("bodies::what_a_body_cannot_hold_is_refused_before_the_driver_is_asked"),
    ),
    mutant(
        "graph-doubt",
        "after a removal that failed the driver is asked whether the node is there",
        graph("ownership::a_removal_that_was_done_although_it_failed_is_found_out"),
    ),
    // Executable graphs.
    mutant(
        "exec-retired",
        "what a change of an executable replaces is kept while a launch may use it",
        graph("exec::kept::what_a_change_replaced_is_kept_while_a_launch_under_way_may_use_it"),
    ),
    mutant(
        "exec-release",
        "what was replaced is let go once the launches that could use it are over",
        graph(
            "exec::kept::a_later_launch_lets_go_of_what_nothing_uses_any_more_and_so_does_a_later_change",
        ),
    ),
    mutant(
        "exec-unknown",
        "a change that says that it failed, and was made, keeps what it brought",
        graph(
            "exec::kept::a_change_that_says_it_failed_leaves_the_executable_as_it_was_and_keeps_what_either_needs",
        ),
    ),
    mutant(
        "exec-lend",
        "the driver's executable holds what changes bring, for the launch that outlives its handle",
        graph(
            "exec::kept::an_executable_that_is_dropped_while_it_runs_leaves_the_launch_what_it_uses",
        ),
    ),
    // Captures.
    mutant(
        "builder-claim",
        "safe work on a stream that a builder captures is refused",
        graph(
            "capture::build::safe_work_on_a_captured_stream_through_another_clone_is_refused_and_disturbs_nothing",
        ),
    ),
    mutant(
        "capture-keep",
        "captured work keeps what it uses",
        graph(
            "capture::build::a_captured_kernel_s_buffer_lives_as_long_as_an_executable_that_uses_it",
        ),
    ),
    mutant(
        "capture-begin-undo",
        "a capture that began is ended where what comes next fails",
        graph(
            "capture::failure::scenario_s31_where_the_question_after_a_begin_fails_the_capture_is_ended",
        ),
    ),
    mutant(
        "capture-end-asked",
        "where an end failed the driver is asked whether the stream is still captured",
        graph(
            "capture::failure::scenario_s33_where_the_end_itself_fails_the_books_say_what_the_driver_says",
        ),
    ),
    mutant(
        "capture-drop",
        "a builder that is dropped ends its capture",
        graph("capture::build::a_dropped_builder_ends_its_capture_and_lets_go_of_what_it_kept"),
    ),
    mutant(
        "capture-end-fork",
        "the end of a fork is refused without the driver",
        graph("capture::fork::ending_a_fork_is_refused_before_the_driver_is_asked"),
    ),
    mutant(
        "capture-order",
        "a fork is drawn into the capture, and a join puts its work in front",
        graph("capture::fork::forks_run_side_by_side_between_what_is_in_front_and_behind"),
    ),
    mutant(
        "capture-join-stops",
        "a join stops at the first fork that can't be joined",
        graph(
            "capture::fork::scenario_s29_a_join_that_fails_half_way_leaves_forks_that_can_be_dropped",
        ),
    ),
    mutant(
        "capture-spoilt",
        "a graph that isn't what was asked for isn't handed out",
        graph(
            "capture::failure::a_child_whose_place_is_not_known_spoils_the_capture_and_its_graph_is_not_handed_out",
        ),
    ),
    mutant(
        "capture-poison",
        "a graph inside of which the driver freed a body is leaked",
        graph(
            "capture::body::an_invalidated_direct_body_poisons_its_capture_whose_graph_is_leaked_with_one_report",
        ),
    ),
    mutant(
        "capture-unfilled",
        "a graph with a body that isn't whole isn't handed out",
        graph("capture::body::a_body_that_can_not_be_put_into_its_node_spoils_the_capture"),
    ),
];
