-- The latest run of every pipeline that succeeded, and its metrics.
CREATE OR REPLACE VIEW latest_runs AS
    SELECT * FROM runs WHERE status = 'succeeded'
    QUALIFY row_number() OVER (PARTITION BY pipeline ORDER BY run_id DESC) = 1;
CREATE OR REPLACE VIEW latest_metrics AS
    SELECT metrics.* FROM metrics SEMI JOIN latest_runs USING (pipeline, run_id);

-- One row per run, stage, case and fold; a column per metric.
CREATE OR REPLACE VIEW metrics_wide AS
    SELECT pipeline, run_date, run_id, stage, "case", method, fold, split, max(rows) AS rows,
        max(value) FILTER (metric = 'smse') AS smse,
        max(value) FILTER (metric = 'rmse') AS rmse,
        max(value) FILTER (metric = 'mae') AS mae,
        max(value) FILTER (metric = 'mnll') AS mnll,
        max(value) FILTER (metric = 'nlpd') AS nlpd,
        max(value) FILTER (metric = 'crps') AS crps,
        max(value) FILTER (metric = 'coverage_50') AS coverage_50,
        max(value) FILTER (metric = 'coverage_90') AS coverage_90,
        max(value) FILTER (metric = 'coverage_95') AS coverage_95,
        max(value) FILTER (metric = 'width_50') AS width_50,
        max(value) FILTER (metric = 'width_90') AS width_90,
        max(value) FILTER (metric = 'width_95') AS width_95,
        max(value) FILTER (metric = 'rhat_log_likelihood') AS rhat_log_likelihood,
        max(value) FILTER (metric = 'ess_log_likelihood') AS ess_log_likelihood,
        max(value) FILTER (metric = 'acceptance') AS acceptance
    FROM metrics WHERE stat = 'value' AND feature IS NULL
    GROUP BY pipeline, run_date, run_id, stage, "case", method, fold, split;

-- What each phase of a stage cost, over the folds. `offline.…` phases are parts of `offline`.
CREATE OR REPLACE VIEW timings_by_phase AS
    SELECT pipeline, run_date, run_id, stage, "case", phase, count(*) AS pieces, sum(wall_s) AS wall_s,
        sum(cpu_s) AS cpu_s, max(peak_rss_bytes) AS peak_rss_bytes, sum(rows)::BIGINT AS rows,
        bool_and(cached) AS cached
    FROM timings GROUP BY pipeline, run_date, run_id, stage, "case", phase;

-- How far the data of scoring runs are from those of training, over time.
CREATE OR REPLACE VIEW drift AS
    SELECT metrics.pipeline, runs.started_at, metrics.run_id, stage, "case", split, metric, feature, value, rows
    FROM metrics JOIN runs ON runs.run_id = metrics.run_id AND runs.pipeline = metrics.pipeline
    WHERE metric IN ('rows_invalid', 'share_outside_range', 'variance_ratio') AND stat = 'value'
    ORDER BY metrics.pipeline, runs.started_at, metric, feature;
