//! The nearest of many points, and lists of neighbours, against sorting.

use crate::naive::local::nearest;
use crate::naive::{generator, normal_matrix, with_threads};
use ndarray::{Array2, Axis, concatenate};
use stride_pipe::gp::neighbours::{Among, NeighbourIndex, NeighbourLists, SearchRoom};
use stride_pipe::gp::random::{below, permutation};

// Random, clustered, copied and on a lattice, where most distances occur many times.
fn clouds(n: usize) -> Vec<(&'static str, Array2<f64>)> {
    let mut rng = generator(3);
    let centres = normal_matrix(4, 20, 7) * 10.0;
    let mut clustered = normal_matrix(5, n, 7) * 0.01;
    clustered.outer_iter_mut().for_each(|mut row| row += &centres.row(below(&mut rng, 20)));
    let some = normal_matrix(6, 60, 4);
    let copied = Array2::from_shape_fn((n, 4), |(i, j)| some[[(i * i + 3 * i) % 60, j]]);
    let lattice = Array2::from_shape_fn((n, 3), |_| below(&mut rng, 9) as f64 - 4.0);
    let mut stretched = normal_matrix(7, n, 9);
    stretched.columns_mut().into_iter().enumerate().for_each(|(j, mut column)| {
        column *= 10_f64.powi(2 - j as i32);
        column += 1000.0;
    });
    // A few rows so far away that all others are one point beside them.
    let mut outliers = normal_matrix(16, n, 6);
    outliers.outer_iter_mut().step_by(997).for_each(|mut row| row *= 1e7);
    vec![
        ("outliers", outliers),
        ("5 coordinates", normal_matrix(1, n, 5)),
        ("30 coordinates", normal_matrix(2, n, 30)),
        ("clustered", clustered),
        ("copied", copied),
        ("lattice", lattice),
        ("stretched, far from 0", stretched),
        ("one coordinate", normal_matrix(8, n, 1)),
        ("constant", Array2::from_elem((n, 2), 0.3)),
    ]
}

// Points of the cloud, others near it, between the points of a lattice, and far away.
fn queries(points: &Array2<f64>) -> Array2<f64> {
    let d = points.ncols();
    let own = points.select(Axis(0), &(0..12).map(|i| i * 823 % points.nrows()).collect::<Vec<_>>());
    let near = &own + &(normal_matrix(9, own.nrows(), d) * 0.3);
    let between = own.mapv(|v| v.round() + 0.5);
    let far = normal_matrix(10, 6, d) * 1e6;
    let farther = normal_matrix(11, 3, d) * 1e12;
    concatenate(Axis(0), &[own.view(), near.view(), between.view(), far.view(), farther.view()]).unwrap()
}

#[test]
fn the_nearest_are_those_of_a_sort() {
    let n = 10_000;
    for (name, points) in clouds(n) {
        let index = NeighbourIndex::new(points.clone()).unwrap();
        assert_eq!(index.points(), points);
        let mut order: Vec<u32> = index.near_order().collect();
        order.sort_unstable();
        assert!(order.into_iter().eq(0..n as u32), "{name}");
        let (mut room, mut found) = (SearchRoom::default(), Vec::new());
        for (number, query) in queries(&points).outer_iter().enumerate() {
            let limit = [u32::MAX, 10_000, 4321, 70, 3, 0][number % 6];
            let except = [None, Some(number as u32), Some(823 * number as u32 % n as u32)][number % 3];
            let among = (0..n).filter(|row| (*row as u32) < limit && Some(*row as u32) != except);
            let expected = nearest(&points, query, among);
            for count in [1, 2, 8, 41, 200] {
                let among = Among { below: limit, except };
                index.nearest(query.as_slice().unwrap(), count, among, &mut room, &mut found);
                let found: Vec<(f64, usize)> = found.iter().map(|(distance, row)| (*distance, *row as usize)).collect();
                assert_eq!(found, expected[..count.min(expected.len())], "{name}, query {number}, {count}");
            }
        }
    }
}

#[test]
fn few_points_and_queries_that_are_no_numbers_do_no_harm() {
    for n in [0, 1, 2, 7, 8, 9, 63, 64, 65, 129] {
        let points = normal_matrix(12, n, 3);
        let index = NeighbourIndex::new(points.clone()).unwrap();
        let (mut room, mut found) = (SearchRoom::default(), Vec::new());
        for query in normal_matrix(13, 5, 3).outer_iter() {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                index.nearest(&[0.1, bad, 0.2], 4, Among::ALL, &mut room, &mut found);
                assert!(found.len() <= 4 && found.iter().all(|(_, row)| (*row as usize) < n), "{n} points, {bad}");
                assert!(!bad.is_nan() || found.is_empty(), "{n} points, {bad}");
            }
            for count in [0, 1, 5, 200] {
                index.nearest(query.to_slice().unwrap(), count, Among::ALL, &mut room, &mut found);
                let expected = nearest(&points, query, 0..n);
                let found: Vec<(f64, usize)> = found.iter().map(|(distance, row)| (*distance, *row as usize)).collect();
                assert_eq!(found, expected[..count.min(n)], "{count} of {n}");
            }
        }
    }
}

#[test]
fn lists_are_those_of_a_sort() {
    for (name, points) in clouds(1500) {
        let n = points.nrows();
        let order: Vec<u32> = permutation(&mut generator(14), n).into_iter().map(|row| row as u32).collect();
        let ordered = points.select(Axis(0), &order.iter().map(|row| *row as usize).collect::<Vec<_>>());
        let earlier = NeighbourLists::earlier(points.view(), &order, 9).unwrap();
        assert_eq!((earlier.len(), earlier.width()), (n, 9));
        let mut seen = vec![false; n];
        for place in 0..n {
            let (row, found) = earlier.get(place);
            let position = order.iter().position(|other| *other as usize == row).unwrap();
            // Equally near ones by their place in the order.
            let expected = nearest(&ordered, points.row(row), 0..position);
            let expected = expected.into_iter().take(9).map(|(_, position)| order[position] as usize);
            assert!(found.eq(expected), "{name}, row {row}");
            assert!(!std::mem::replace(&mut seen[row], true), "{name}: row {row} twice");
        }
        let index = NeighbourIndex::new(points.clone()).unwrap();
        let rows: Vec<u32> = (0..n as u32).step_by(7).collect();
        let others = NeighbourLists::others(&index, &rows, 12);
        assert_eq!(others.len(), rows.len());
        for (place, row) in rows.iter().enumerate() {
            let (own, found) = others.get(place);
            assert_eq!(own, *row as usize);
            let expected = nearest(&points, points.row(own), (0..n).filter(|other| *other != own));
            assert!(found.eq(expected.into_iter().take(12).map(|(_, row)| row)), "{name}, row {row}");
        }
        for threads in [1, 2, 3] {
            let again =
                || (NeighbourLists::earlier(points.view(), &order, 9), NeighbourLists::others(&index, &rows, 12));
            let (again, again_others) = with_threads(threads, again);
            assert!(again.unwrap() == earlier && again_others == others, "{name}, {threads} threads");
        }
    }
}

#[test]
fn lists_of_few_rows_hold_all_that_there_are() {
    for n in [1, 2, 5] {
        let points = normal_matrix(15, n, 2);
        let order: Vec<u32> = (0..n as u32).rev().collect();
        let lists = NeighbourLists::earlier(points.view(), &order, 40).unwrap();
        assert_eq!((lists.len(), lists.width(), lists.is_empty()), (n, n - 1, false));
        for place in 0..n {
            let (row, found) = lists.get(place);
            assert_eq!(found.count(), n - 1 - row);
        }
        let index = NeighbourIndex::new(points).unwrap();
        assert_eq!(NeighbourLists::others(&index, &[0], 40).get(0).1.count(), n - 1);
    }
}
