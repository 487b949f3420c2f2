//! The same bits whatever the position in a tile, the threads, the files, the batches.

use super::{GP, STRIDE, published, rows, scores, values};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use std::sync::Arc;
use stride_pipe::store::write_columns;

/// Rows of a tile of the models.
const TILE: i64 = 96;

#[test]
fn a_row_has_the_same_bits_at_every_position_of_a_tile() {
    for method in [GP, STRIDE, "method: ridge", "method: knn"] {
        let sandbox = published(method);
        rows(&sandbox.path("one.parquet"), [5]);
        sandbox.run("score --model models/m --input one.parquet --output one-out.parquet --key id").succeeded();
        let alone = scores(&sandbox.path("one-out.parquet"))[&5];
        // The probe at all even positions, then at all odd ones, others between.
        for parity in [0, 1] {
            let n = 2 * TILE + 5;
            let at = |i: i64| values(if i % 2 == parity { 5 } else { 100 + i });
            let column = |pick: fn((f64, f64)) -> f64| -> ArrayRef {
                Arc::new((0..n).map(|i| pick(at(i))).collect::<Float64Array>())
            };
            let columns = vec![
                ("id", Arc::new(Int64Array::from_iter_values(0..n)) as ArrayRef),
                ("a", column(|(a, _)| a)),
                ("b", column(|(_, b)| b)),
            ];
            write_columns(&sandbox.path("many.parquet"), columns).unwrap();
            sandbox.run("score --model models/m --input many.parquet --output many-out.parquet --key id").succeeded();
            let many = scores(&sandbox.path("many-out.parquet"));
            let probes = many.iter().filter(|(i, _)| *i % 2 == parity);
            assert_eq!(many.len(), n as usize);
            for (i, found) in probes {
                assert_eq!(*found, alone, "{method}: position {i}");
            }
        }
    }
}

#[test]
fn threads_files_and_their_order_do_not_matter() {
    for method in [GP, STRIDE, "method: ridge", "method: knn"] {
        let sandbox = published(method);
        rows(&sandbox.path("whole.parquet"), 0..1000);
        let base = "score --model models/m --key id --intervals 0.9 --output";
        sandbox.run(&format!("{base} one.parquet --input whole.parquet --threads 1")).succeeded();
        let whole = scores(&sandbox.path("one.parquet"));
        assert_eq!(whole.len(), 1000);
        for threads in [2, 3] {
            sandbox.run(&format!("{base} more.parquet --input whole.parquet --threads {threads}")).succeeded();
            let content = |name: &str| super::content(&sandbox.path(name));
            assert!(content("one.parquet") == content("more.parquet"), "the same bits for {threads} threads");
        }
        // Other cuts, in another order, some of them empty.
        let parts = [("d=1/z", 0..1), ("d=1/y", 1..97), ("d=2/x", 97..98), ("d=2/empty", 98..98), ("d=3/a", 98..1000)];
        for (name, keys) in parts {
            rows(&sandbox.path(format!("parts/{name}.parquet")), keys.rev());
        }
        sandbox.run(&format!("{base} parts-out.parquet --input parts")).succeeded();
        assert_eq!(scores(&sandbox.path("parts-out.parquet")), whole);
        sandbox.run(&format!("{base} mirror/ --input parts/*/*.parquet")).succeeded();
        let mut mirrored = super::Scores::new();
        for file in sandbox.files("mirror") {
            mirrored.extend(scores(&sandbox.path("mirror").join(file)));
        }
        assert_eq!(sandbox.files("mirror"), sandbox.files("parts"));
        assert_eq!(mirrored, whole);
        sandbox.run(&format!("{base} hive.parquet --input parts --keep d,other --no-variance")).succeeded();
        let means = |all: &super::Scores| all.iter().map(|(key, (mean, _))| (*key, *mean)).collect::<Vec<_>>();
        let hive = scores(&sandbox.path("hive.parquet"));
        assert_eq!(means(&hive), means(&whole), "the same means without variances");
        assert!(hive.values().all(|(_, std)| std.is_none()));
    }
}
