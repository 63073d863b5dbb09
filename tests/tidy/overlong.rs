//! Files and functions that plain rustfmt made too long, until each is split. Nothing joins these lists.

pub const FILES: &[&str] = &[
    "src/cli/outbox.rs",
    "src/cli/runs.rs",
    "src/config/load.rs",
    "src/mime/report/reason.rs",
    "src/providers/agents/claude_lines.rs",
    "src/providers/agents/opencode.rs",
    "src/providers/api/anthropic.rs",
    "src/providers/api/openai_chunks.rs",
    "src/providers/transport/http.rs",
    "src/replay/timeline.rs",
    "src/replay/verify/recorded_env.rs",
    "src/runs/budget.rs",
    "src/runs/supervisor.rs",
    "src/runs/work.rs",
    "src/store/mail/arrivals.rs",
    "src/store/schedules/responsibilities.rs",
    "src/store/sqlite/open.rs",
    "src/store/sqlite/writer.rs",
    "src/store/views/browse.rs",
    "tests/it/agents/claude.rs",
    "tests/it/cli.rs",
    "tests/it/config.rs",
    "tests/it/crash_points/sweep.rs",
    "tests/it/faces.rs",
    "tests/it/identity/attacks.rs",
    "tests/it/imap/sweeps.rs",
    "tests/it/judge.rs",
    "tests/it/knowledge.rs",
    "tests/it/money/waiting.rs",
    "tests/it/providers/gemini.rs",
    "tests/it/providers/ollama.rs",
    "tests/it/replay/bundle.rs",
    "tests/it/scheduler/downtime.rs",
    "tests/it/scheduler/files.rs",
    "tests/it/sql.rs",
    "tests/it/tools/search.rs",
];

pub const FUNCTIONS: &[(&str, &str)] = &[
    ("src/app.rs", "with_store"),
    ("src/cli/backup.rs", "back_up"),
    ("src/cli/drain.rs", "report"),
    ("src/cli/outbox.rs", "list"),
    ("src/cli/persona.rs", "create"),
    ("src/cli/persona.rs", "show"),
    ("src/cli/replay/sweep.rs", "sweep"),
    ("src/cli/runs.rs", "show"),
    ("src/cli/schedule/show.rs", "fields"),
    ("src/config/budgets.rs", "spending"),
    ("src/config/gateway.rs", "resolve"),
    ("src/config/listeners.rs", "resolve_listener"),
    ("src/config/load.rs", "load_from"),
    ("src/context/mod.rs", "resolve_step"),
    ("src/context/resolvers/knowledge/sync.rs", "sync_knowledge"),
    ("src/context/resolvers/recorded.rs", "load"),
    ("src/gateway/identity/arc_signers.rs", "verify"),
    ("src/gateway/identity/policy.rs", "ask"),
    ("src/gateway/identity/trust.rs", "decide"),
    ("src/gateway/intake.rs", "store_letter"),
    ("src/gateway/notices/letter.rs", "headline"),
    ("src/providers/child/process.rs", "start"),
    (
        "src/providers/transport/wait.rs",
        "headers_come_before_words_and_words_before_windows",
    ),
    ("src/replay/fork/view.rs", "write"),
    ("src/replay/html.rs", "write_run"),
    ("src/replay/sweep.rs", "asked"),
    (
        "src/runs/counters.rs",
        "each_bound_stops_at_exactly_its_limit",
    ),
    ("src/runs/reply.rs", "freeze"),
    ("src/store/runs/journal.rs", "mail"),
    (
        "tests/it/agents/claude.rs",
        "the_last_line_counts_with_all_its_traps",
    ),
    ("tests/it/asof/edits.rs", "happen"),
    (
        "tests/it/asof/sweep.rs",
        "a_change_is_found_in_every_run_that_would_have_been_told_it",
    ),
    (
        "tests/it/asof/sweep.rs",
        "the_command_reads_the_workspace_as_it_is_now_and_says_how_many",
    ),
    (
        "tests/it/automatic/letters.rs",
        "no_automatic_letter_is_answered_and_each_is_filed_with_its_rule_while_near_misses_are_answered",
    ),
    (
        "tests/it/browse.rs",
        "an_id_may_be_cut_as_long_as_it_is_the_only_one",
    ),
    ("tests/it/config.rs", "everything_that_can_be_typed_arrives"),
    (
        "tests/it/config.rs",
        "whatever_can_be_typed_is_shown_under_its_name",
    ),
    ("tests/it/crash_points/sweep.rs", "play"),
    (
        "tests/it/faces.rs",
        "a_letter_goes_in_by_hand_and_its_answer_comes_out",
    ),
    (
        "tests/it/filed/log.rs",
        "every_letter_and_every_refused_recipient_has_one_line_with_sender_persona_verdict_and_remedy",
    ),
    (
        "tests/it/folder.rs",
        "the_envelope_is_read_off_the_header_by_its_best_witness",
    ),
    (
        "tests/it/hijack/forgeries.rs",
        "an_owners_letter_is_an_order_only_to_the_persona_that_it_names",
    ),
    ("tests/it/hijack/replays.rs", "play"),
    (
        "tests/it/identity/decisions.rs",
        "a_trusted_relays_word_counts_for_and_against",
    ),
    (
        "tests/it/identity/decisions.rs",
        "seals_of_trusted_lists_carry_what_they_saw",
    ),
    (
        "tests/it/identity/held.rs",
        "a_fetched_letter_is_held_over_a_restart_and_answered_once_its_sender_is_known",
    ),
    ("tests/it/imap/server.rs", "answer"),
    (
        "tests/it/init.rs",
        "what_cannot_be_is_refused_before_anything_is_written",
    ),
    ("tests/it/isolation.rs", "ids_of_the_other_open_nothing"),
    (
        "tests/it/judge.rs",
        "deny_wins_over_allow_and_allow_over_the_default",
    ),
    (
        "tests/it/judge.rs",
        "headers_of_machines_forbid_an_answer_and_their_near_misses_do_not",
    ),
    (
        "tests/it/judge.rs",
        "mail_between_personas_is_told_from_forged_and_returned_mail_by_our_own_records",
    ),
    (
        "tests/it/keeping/backup.rs",
        "a_backup_under_load_has_every_letter_that_got_its_yes_before_it_and_restores_to_a_working_engine",
    ),
    (
        "tests/it/money/cascade.rs",
        "a_run_has_the_nearest_bound_that_was_said_even_where_it_is_wider",
    ),
    (
        "tests/it/money/kills.rs",
        "parallel_runs_under_kills_never_spend_more_than_the_day_s_budget",
    ),
    (
        "tests/it/money/waiting.rs",
        "a_responsibility_bounds_its_runs_and_the_listing_says_so",
    ),
    (
        "tests/it/outbound/check.rs",
        "what_is_wrong_with_the_way_out_is_said_with_what_to_do",
    ),
    (
        "tests/it/outbound/faults.rs",
        "a_recipient_who_has_the_mail_never_gets_it_again",
    ),
    (
        "tests/it/outbound/operators.rs",
        "all_that_failed_or_is_held_is_retried_with_one_command_and_health_says_why_nothing_moves",
    ),
    (
        "tests/it/outbound/operators.rs",
        "the_outbox_is_listed_shown_and_changed_from_the_command_line",
    ),
    ("tests/it/outbound/server.rs", "talk"),
    (
        "tests/it/providers/classify.rs",
        "a_bad_request_says_which_parameter_it_was_refused_for",
    ),
    (
        "tests/it/providers/gemini.rs",
        "what_the_vendor_refuses_is_told_apart",
    ),
    ("tests/it/providers/history.rs", "fault"),
    (
        "tests/it/providers/judged_natives.rs",
        "the_judge_of_gemini_refuses_what_the_api_refuses",
    ),
    (
        "tests/it/providers/judged_natives.rs",
        "the_judge_of_ollama_refuses_what_the_server_refuses_or_would_get_wrong",
    ),
    (
        "tests/it/providers/recordings.rs",
        "a_letter_that_is_answered_with_a_recording_ends_with_a_mail_or_with_a_class_and_a_notice",
    ),
    ("tests/it/providers/recordings.rs", "differences"),
    ("tests/it/providers/strict_openai.rs", "messages"),
    (
        "tests/it/providers/switches.rs",
        "every_switch_changes_the_body_and_only_where_it_says",
    ),
    (
        "tests/it/providers/switches.rs",
        "what_a_server_refused_before_is_left_out_or_said_the_other_way",
    ),
    (
        "tests/it/providers/threads.rs",
        "one_thread_is_continued_by_provider_after_provider",
    ),
    (
        "tests/it/replay/apart.rs",
        "raw_views_and_pages_come_from_the_command_line",
    ),
    (
        "tests/it/replay/bundle.rs",
        "a_file_that_was_tampered_with_makes_nothing",
    ),
    (
        "tests/it/replay/fork.rs",
        "an_edited_result_and_another_persona_text_reach_the_model",
    ),
    (
        "tests/it/replay/part.rs",
        "a_selection_keeps_what_was_asked_for_and_says_what_it_left_out",
    ),
    (
        "tests/it/scheduler/calendar.rs",
        "the_calendar_has_every_day_and_folds_what_comes_often",
    ),
    (
        "tests/it/scheduler/front.rs",
        "every_fault_of_a_key_names_its_line_and_what_would_work",
    ),
    (
        "tests/it/scheduler/front.rs",
        "everything_that_a_file_may_say_is_understood",
    ),
    (
        "tests/it/scheduler/races.rs",
        "a_death_at_any_commit_of_firing_leaves_one_run_per_slot",
    ),
    ("tests/it/supervisor/agent.rs", "stream"),
    ("tests/it/survival/ending.rs", "ends"),
];
