-- The latest run of every pipeline that succeeded, and its metrics.
CREATE OR REPLACE VIEW latest_runs AS
    SELECT * FROM runs WHERE status = 'succeeded'
    QUALIFY row_number() OVER (PARTITION BY pipeline ORDER BY run_id DESC) = 1;
CREATE OR REPLACE VIEW latest_metrics AS
    SELECT metrics.* FROM metrics SEMI JOIN latest_runs USING (pipeline, run_id);

-- One row per run, stage, case and fold; a column per metric.
CREATE OR REPLACE VIEW metrics_wide AS
    SELECT pipeline, run_date, run_id, stage, "case", method, fold, split, max(rows) AS rows,
        $METRIC_COLUMNS
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
    WHERE metric IN ($DRIFT_METRICS) AND stat = 'value'
    ORDER BY metrics.pipeline, runs.started_at, metric, feature;

-- One row per run: how it ended, how long it took, and its best case by `$HEADLINE`.
CREATE OR REPLACE VIEW run_summary AS
    WITH best AS (
        SELECT pipeline, run_id, stage, "case", method, avg(value) AS $HEADLINE, stddev_samp(value) AS $HEADLINE_std
        FROM metrics WHERE metric = '$HEADLINE' AND stat = 'value' AND split <> 'train'
        GROUP BY pipeline, run_id, stage, "case", method
        QUALIFY row_number() OVER (PARTITION BY pipeline, run_id ORDER BY avg(value), stage, "case") = 1)
    SELECT runs.pipeline, runs.run_date, runs.run_id, runs.status, runs.started_at,
        epoch(runs.finished_at) - epoch(runs.started_at) AS seconds, runs.version, runs.host,
        best.stage AS best_stage, best."case" AS best_case, best.method AS best_method, best.$HEADLINE, best.$HEADLINE_std
    FROM runs LEFT JOIN best ON best.pipeline = runs.pipeline AND best.run_id = runs.run_id;

-- Every metric of every case over its folds, with the matrix values as a map: variables['m'].
CREATE OR REPLACE VIEW metrics_summary AS
    WITH variables AS (
        SELECT pipeline, run_id, "case", map_from_entries(list(struct_pack(k := name, v := value) ORDER BY name)) AS variables
        FROM cases GROUP BY pipeline, run_id, "case")
    SELECT metrics.pipeline, metrics.run_date, metrics.run_id, metrics.stage, metrics."case", variables.variables, metrics.method,
        metrics.split, metrics.metric, avg(value) AS mean, stddev_samp(value) AS std, min(value) AS lowest,
        max(value) AS highest, count(value) AS folds
    FROM metrics LEFT JOIN variables ON variables.pipeline = metrics.pipeline AND variables.run_id = metrics.run_id
        AND variables."case" = metrics."case"
    WHERE stat = 'value' AND feature IS NULL
    GROUP BY ALL;

-- The share of true values inside central predictive intervals, beside the share that should be there.
CREATE OR REPLACE VIEW calibration AS
    SELECT pipeline, run_date, run_id, stage, "case", nominal::DOUBLE AS nominal, avg((abs(y_true - y_mean) <= z * y_std)::INT) AS observed,
        count(*) AS rows
    FROM predictions, (VALUES (0.1, 0.1256613), (0.25, 0.3186394), (0.5, 0.6744898), (0.75, 1.1503494), (0.8, 1.2815516),
        (0.9, 1.6448536), (0.95, 1.9599640), (0.99, 2.5758293)) AS levels(nominal, z)
    WHERE y_true IS NOT NULL AND y_mean IS NOT NULL AND y_std IS NOT NULL
    GROUP BY pipeline, run_date, run_id, stage, "case", nominal;

-- One row per scoring run: rows, invalid rows, variance, and the feature that is outside its range most.
CREATE OR REPLACE VIEW drift_wide AS
    SELECT pipeline, started_at, run_id, stage, "case", max(rows) AS rows,
        max(value) FILTER (metric = 'rows_invalid') AS rows_invalid,
        max(value) FILTER (metric = 'variance_ratio') AS variance_ratio,
        max(value) FILTER (metric = 'share_outside_range') AS most_outside,
        arg_max(feature, value) FILTER (metric = 'share_outside_range') AS most_outside_feature
    FROM drift GROUP BY pipeline, started_at, run_id, stage, "case" ORDER BY pipeline, started_at;
