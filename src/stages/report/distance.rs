//! Errors with and without the local layer, by the distance to the nearest training row.

use crate::report::{DistanceBin, Moments};

/// Places from 2⁻²⁴ to 2²⁴ times the usual distance, so many for each doubling; the first holds what is nearer.
const PER_DOUBLING: f64 = 32.0;
const DOUBLINGS: f64 = 24.0;
const PLACES: usize = 2 * (DOUBLINGS * PER_DOUBLING) as usize + 1;
/// Bins with about as many rows each, and how many rows they should have.
const BINS: u64 = 10;
const LEAST_ROWS: u64 = 10;

/// Rows by their distance, counted so finely that bins of equal numbers of rows can be made of them.
#[derive(Default)]
pub struct ByDistance {
    places: Vec<DistanceBin>,
}

impl ByDistance {
    /// Counts a row at this distance, with its errors with and without the local layer.
    pub fn add(&mut self, distance: f64, with: f64, without: f64) {
        self.places.resize(PLACES, DistanceBin::default());
        let place = if distance > 0.0 { (distance.log2() + DOUBLINGS) * PER_DOUBLING } else { 0.0 };
        let bin = &mut self.places[place.clamp(0.0, (PLACES - 1) as f64) as usize];
        let row = |value: f64| Moments { count: 1, sum: value, squares: value * value };
        bin.add(&DistanceBin {
            distance: row(distance),
            with: row(with * with),
            without: row(without * without),
            gain: row(without * without - with * with),
        });
    }

    /// Bins with about as many rows each, the nearest first. Rows at the same distance stay together.
    pub fn bins(&self) -> Vec<DistanceBin> {
        let all: u64 = self.places.iter().map(DistanceBin::rows).sum();
        let wanted = (all / LEAST_ROWS).clamp(1, BINS);
        let (mut bins, mut open, mut seen, mut closed) = (Vec::new(), DistanceBin::default(), 0, 0);
        for place in self.places.iter().filter(|place| place.rows() > 0) {
            open.add(place);
            seen += place.rows();
            if seen * wanted >= (closed + 1) * all {
                closed = seen * wanted / all;
                bins.push(std::mem::take(&mut open));
            }
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_equal_numbers_of_rows() {
        let mut counted = ByDistance::default();
        assert!(counted.bins().is_empty());
        // A third are copies of training rows, the others lie farther and farther away.
        let distance = |row: u32| if row.is_multiple_of(3) { 0.0 } else { 0.2 * 1.005_f64.powi(row as i32) };
        for row in 0..900 {
            counted.add(distance(row), 1.0, if row.is_multiple_of(3) { 2.0 } else { 1.0 });
        }
        let bins = counted.bins();
        assert_eq!(bins.iter().map(DistanceBin::rows).sum::<u64>(), 900);
        assert_eq!(bins[0].rows(), 300, "copies stay together");
        assert!(bins[1..].iter().all(|bin| bin.rows().abs_diff(90) <= 40), "{bins:?}");
        assert!(bins.windows(2).all(|pair| pair[0].distance.mean() < pair[1].distance.mean()));
        assert_eq!((bins[0].with.mean(), bins[0].without.mean(), bins[0].gain.mean()), (1.0, 4.0, 3.0));
        // Against all rows at once, naively.
        let last = &bins[bins.len() - 1];
        let mut sorted: Vec<f64> = (0..900).map(distance).collect();
        sorted.sort_by(f64::total_cmp);
        let tail = &sorted[900 - last.rows() as usize..];
        let mean = tail.iter().sum::<f64>() / tail.len() as f64;
        assert!((last.distance.mean() - mean).abs() < 1e-9 * mean);
    }

    #[test]
    fn few_rows_are_one_bin() {
        let mut counted = ByDistance::default();
        (0..12).for_each(|row| counted.add(f64::from(row), 1.0, 1.0));
        assert_eq!(counted.bins().len(), 1);
    }
}
