-- Runs of 14 tenants, 12 job types and a release every three days, placed in [start, start + length).
INSERT INTO run (tenant_id, attempt, eligible, completes, run_id, ingest_mark, at, started_at, ended_at,
    received_at, duration_ms, tokens_input, tokens_output, tokens_cached, policy_revision, policy_version, steps,
    turns, tool_calls, refusals, retries, blocked, blocked_by_provider, duplicates, peak_repeats, peak_stall,
    peak_error_streak, peak_domain_calls, peak_listing_pages, peak_refusals, looped, provider_failure,
    clock_suspect, sanitized, step_cap, cost, body_digest, outcome, answer, halt_reason, family, mode,
    would_halt, step_unit, cost_basis, job_type, agent, release, root_task_id, guard_version, detail)
SELECT tenant, CASE WHEN r7 < 0.04 THEN 2 ELSE 1 END, r7 >= 0.15, o.outcome = 'completed' AND r7 >= 0.1, id,
    pg_current_xact_id()::text::bigint, at, at - make_interval(secs => 20 + steps * 3), at, at,
    (20 + steps * 3) * 1000 + (r5 * 900)::int, (steps * 900 * r6)::int, (steps * 60 * r5)::int, 0, 3, 3, steps,
    steps, steps, 0, 0, (r8 < 0.08)::int, 0, (r8 * r8 * 3)::int, 1, 2, 1, 3, 0, 0,
    r8 < 0.05 OR coalesce(h.family, '') IN ('repetition', 'cycle', 'progress'), r8 > 0.98, false, false,
    CASE WHEN mod(tenant, 5) = 0 THEN 60 ELSE 40 END, round((0.002 + steps * 0.003 * r6)::numeric, 6),
    decode(substr(md5, 1, 32), 'hex'), o.outcome, o.answer, coalesce(h.reason, ''), coalesce(h.family, ''),
    'enforce', '', CASE WHEN mod(job, 4) = 1 THEN 'turn' ELSE 'tool_call' END, 'price_table',
    (ARRAY['research', 'coding', 'support', 'invoice_match', 'payouts', 'triage', 'crawl', 'reports', 'hiring',
        'legal', 'pricing', 'ops'])[1 + job], 'agent-' || job,
    'r' || tenant || '.' || (extract(epoch FROM at)::bigint / 259200 - (r4 < 0.2)::int), '', '1.0.0',
    json_build_object('sources', json_build_array(
        json_build_object('kind', 'tool', 'name', 'tool.' || (r1 * 9)::int, 'calls', steps),
        json_build_object('kind', 'domain', 'name', 'site' || (r2 * r2 * 60)::int || '.example', 'calls', 2),
        json_build_object('kind', 'domain', 'name', 'docs' || (r3 * r3 * 90)::int || '.example', 'calls', 1)))
FROM (
    SELECT *, mod(tenant * 5 + (6 * r4 * r4)::int, 12) AS job,
        least(2 + (-6 * ln(1 - r3))::int, CASE WHEN mod(tenant, 5) = 0 THEN 60 ELSE 40 END) AS steps,
        (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5, 1, 3)
            || '8' || substr(md5, 4, 15))::uuid AS id
    FROM (
        SELECT %(start)s + random() * %(length)s AS at, 1 + (13 * random() ^ 2)::int AS tenant, random() AS r1,
            random() AS r2, random() AS r3, random() AS r4, random() AS r5, random() AS r6, random() AS r7,
            random() AS r8, random() AS outcome, md5(random()::text) AS md5
        FROM generate_series(1, %(rows)s)
    ) AS drawn
) AS run_
CROSS JOIN LATERAL (
    SELECT outcome, answer, stopped FROM (VALUES
        (0.78, 'completed', 'full', false), (0.80, 'completed', 'none', false),
        (0.86, 'completed_forced', 'forced', true), (0.92, 'halted', 'none', true),
        (0.94, 'escalated', 'none', true), (0.96, 'unresolved', 'none', true),
        (0.99, 'failed', 'none', false), (1.0, 'cancelled', 'none', false)
    ) AS v(below, outcome, answer, stopped) WHERE run_.outcome < below ORDER BY below LIMIT 1
) AS o
LEFT JOIN LATERAL (
    SELECT reason, family FROM (VALUES
        (0, 'repeated_call', 'repetition'), (1, 'tool_no_progress', 'repetition'), (2, 'cycle_period_2', 'cycle'),
        (3, 'cycle_period_3', 'cycle'), (4, 'no_progress', 'progress'), (5, 'error_streak', 'progress'),
        (6, 'source_cap', 'source'), (7, 'listing_cap', 'source'), (8, 'step_budget', 'budget'),
        (9, 'wall_clock', 'budget'), (10, 'cost_budget', 'budget'), (11, 'tool_retry_exhausted', 'error'),
        (12, 'uncertain_write', 'error'), (13, 'refusal_limit', 'control'), (14, 'made_up', 'other')
    ) AS v(number, reason, family) WHERE o.stopped AND number = (r1 * 14)::int
) AS h ON true
