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

-- What each stage cost: whole phases, without what came from the cache.
CREATE OR REPLACE VIEW timings_by_stage AS
    SELECT pipeline, run_date, run_id, stage, "case", sum(wall_s) AS wall_s, sum(cpu_s) AS cpu_s,
        max(peak_rss_bytes) AS peak_rss_bytes
    FROM timings WHERE NOT cached AND phase NOT LIKE '%.%' GROUP BY pipeline, run_date, run_id, stage, "case";

-- The day of the data of each run and case: its matrix variable or parameter `date`, else `date=…` in another parameter, such
-- as the path of an input, else the day of the run.
CREATE OR REPLACE VIEW scored_days AS
    WITH days AS (
        SELECT pipeline, run_id, "case", 1 AS place, value FROM cases WHERE name = 'date'
        UNION ALL SELECT pipeline, run_id, NULL, CASE WHEN name = 'date' THEN 2 ELSE 3 END,
            CASE WHEN name = 'date' THEN value ELSE regexp_extract(value, '\bdate=([0-9-]+)', 1) END
        FROM params),
    known AS (
        SELECT pipeline, run_id, "case", place, coalesce(try_cast(regexp_extract(value, '^[0-9]{4}-[0-9]{2}-[0-9]{2}') AS DATE),
            try_strptime(value, '%Y%m%d')::DATE) AS day
        FROM days),
    ran AS (SELECT DISTINCT pipeline, run_date, run_id, "case" FROM metrics)
    SELECT ran.pipeline, ran.run_id, ran."case", coalesce(arg_min(day, place) FILTER (day IS NOT NULL), ran.run_date) AS scored_day
    FROM ran LEFT JOIN known ON known.pipeline = ran.pipeline AND known.run_id = ran.run_id
        AND coalesce(known."case", ran."case") = ran."case"
    GROUP BY ran.pipeline, ran.run_date, ran.run_id, ran."case";

-- How far the data of scoring runs are from those of training, by the day of the data.
CREATE OR REPLACE VIEW drift AS
    SELECT metrics.pipeline, scored_day, runs.started_at, metrics.run_id, stage, metrics."case", split, metric, feature, value, rows
    FROM metrics JOIN runs ON runs.run_id = metrics.run_id AND runs.pipeline = metrics.pipeline
        JOIN scored_days ON scored_days.run_id = metrics.run_id AND scored_days.pipeline = metrics.pipeline
            AND scored_days."case" = metrics."case"
    WHERE metric IN ($DRIFT_METRICS) AND stat = 'value' AND split = 'score'
    ORDER BY metrics.pipeline, scored_day, runs.started_at, metric, feature;

-- One row per run: how it ended, how long it took, and its best case by `$HEADLINE`; whether `fit` or `tune` only tried something.
CREATE OR REPLACE VIEW run_summary AS
    WITH best AS (
        SELECT pipeline, run_id, stage, "case", method, avg(value) AS $HEADLINE, stddev_samp(value) AS $HEADLINE_std
        FROM metrics WHERE metric = '$HEADLINE' AND stat = 'value' AND split <> 'train'
        GROUP BY pipeline, run_id, stage, "case", method
        QUALIFY row_number() OVER (PARTITION BY pipeline, run_id ORDER BY avg(value), stage, "case") = 1)
    SELECT runs.pipeline, runs.run_date, runs.run_id, runs.status, runs.started_at,
        epoch(runs.finished_at) - epoch(runs.started_at) AS seconds, runs.version, runs.host,
        best.stage AS best_stage, best."case" AS best_case, best.method AS best_method, best.$HEADLINE, best.$HEADLINE_std,
        regexp_matches(runs.pipeline, '-(fit|tune)$') AND regexp_matches(runs.command, 'stride-pipe (fit|tune) ') AS is_trial
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

-- The same once for each matrix variable of a case, its value as text and as a number, beside the values of the others.
CREATE OR REPLACE VIEW metrics_by_variable AS
    WITH variables AS (
        SELECT one.pipeline, one.run_id, one."case", one.name AS variable, one.value, try_cast(one.value AS DOUBLE) AS number,
            coalesce(string_agg(other.name || '=' || other.value, ',' ORDER BY other.name), '') AS others
        FROM cases AS one LEFT JOIN cases AS other ON other.pipeline = one.pipeline AND other.run_id = one.run_id
            AND other."case" = one."case" AND other.name <> one.name
        GROUP BY one.pipeline, one.run_id, one."case", one.name, one.value)
    SELECT summary.pipeline, summary.run_date, summary.run_id, summary.stage, summary."case", summary.method, summary.split,
        variables.variable, variables.value, variables.number, variables.others, summary.metric, summary.mean, summary.std,
        summary.lowest, summary.highest, summary.folds
    FROM metrics_summary AS summary JOIN variables ON variables.pipeline = summary.pipeline
        AND variables.run_id = summary.run_id AND variables."case" = summary."case";

-- The share of true values inside central predictive intervals (calibrated ones where the model is), beside the share that
-- should be there.
CREATE OR REPLACE VIEW calibration AS
    SELECT pipeline, run_date, run_id, stage, "case", nominal::DOUBLE AS nominal, avg(coalesce(abs(2 * y_pit - 1) <= nominal,
            abs(y_true - y_mean) <= z * y_std)::INT) AS observed, count(*) AS rows
    FROM predictions, (VALUES (0.1, 0.1256613), (0.25, 0.3186394), (0.5, 0.6744898), (0.75, 1.1503494), (0.8, 1.2815516),
        (0.9, 1.6448536), (0.95, 1.9599640), (0.99, 2.5758293)) AS levels(nominal, z)
    WHERE y_true IS NOT NULL AND y_mean IS NOT NULL AND y_std IS NOT NULL
    GROUP BY pipeline, run_date, run_id, stage, "case", nominal;

-- What the local layer changes: the error with it and without, in tenths of the test rows by their distance to the nearest
-- training row, where 1 is usual among training rows.
CREATE OR REPLACE VIEW local_layer AS
    WITH compared AS (
        SELECT *, ntile(10) OVER (PARTITION BY pipeline, run_id, stage, "case" ORDER BY nearest_distance) AS tenth
        FROM predictions
        WHERE y_true IS NOT NULL AND y_mean IS NOT NULL AND y_mean_global IS NOT NULL AND nearest_distance IS NOT NULL)
    SELECT pipeline, run_date, run_id, stage, "case", tenth, count(*) AS rows, avg(nearest_distance) AS nearest_distance,
        sqrt(avg((y_true - y_mean) * (y_true - y_mean))) AS rmse,
        sqrt(avg((y_true - y_mean_global) * (y_true - y_mean_global))) AS rmse_global
    FROM compared GROUP BY pipeline, run_date, run_id, stage, "case", tenth;

-- One row per scoring run and case: rows, invalid rows, variance, and the feature that is outside its range most.
CREATE OR REPLACE VIEW drift_wide AS
    SELECT pipeline, scored_day, started_at, run_id, stage, "case", max(rows) AS rows,
        max(value) FILTER (metric = 'rows_invalid') AS rows_invalid,
        max(value) FILTER (metric = 'variance_ratio') AS variance_ratio,
        max(value) FILTER (metric = 'nearest_distance_ratio') AS nearest_distance_ratio,
        max(value) FILTER (metric = 'share_outside_range') AS most_outside,
        arg_max(feature, value) FILTER (metric = 'share_outside_range') AS most_outside_feature,
        max(value) FILTER (metric = 'share_unseen_levels') AS most_unseen_levels,
        max(value) FILTER (metric = 'share_missing') AS most_missing
    FROM drift GROUP BY pipeline, scored_day, started_at, run_id, stage, "case" ORDER BY pipeline, scored_day, started_at;

-- What models make of their features, over the folds: permutation importance (loss of R²), Sobol indices, mean size of the slope.
CREATE OR REPLACE VIEW importances AS
    SELECT pipeline, run_date, run_id, stage, "case", feature,
        avg(value) FILTER (kind = 'permutation') AS permutation, max(std) FILTER (kind = 'permutation') AS permutation_std,
        avg(value) FILTER (kind = 'sobol' AND stat = 'first') AS sobol_first,
        avg(value) FILTER (kind = 'sobol' AND stat = 'total') AS sobol_total,
        avg(value) FILTER (kind = 'sensitivity' AND stat = 'mean_absolute') AS sensitivity, count(DISTINCT fold) AS folds
    FROM explanations GROUP BY pipeline, run_date, run_id, stage, "case", feature;
