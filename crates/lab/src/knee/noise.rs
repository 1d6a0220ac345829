//! How far may luck have moved a knee?
//!
//! The success at a load is measured with a binomial error. Divided by how steeply success falls with the load, that is
//! an error of the load at which it crosses the threshold. The slope is that of a line through the loads that were tried
//! near the knee, each weighed by its transactions.

/// What became of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// The load.
    pub(super) load: f64,
    /// Transactions that decide and ended.
    pub(super) ended: u64,
    /// Of these, those that committed.
    pub(super) committed: u64,
}

/// Loads further from the knee than this, up or down, do not bear on the slope there.
const NEAR: f64 = 2.0;

/// One standard error of the knee, as a share of it; `None` where no slope is to be seen.
pub(super) fn relative_error(tried: &[Tried], knee: Tried) -> Option<f64> {
    let near = |tried: &&Tried| (knee.load / NEAR..=knee.load * NEAR).contains(&tried.load) && tried.ended > 0;
    let points = || tried.iter().filter(near).map(|tried| (tried.load.ln(), tried.success(), tried.ended as f64));
    let weight: f64 = points().map(|(_, _, ended)| ended).sum();
    let mean = |of: fn((f64, f64, f64)) -> f64| points().map(|point| of(point) * point.2).sum::<f64>() / weight;
    let (load, success) = (mean(|point| point.0), mean(|point| point.1));
    let (mut product, mut square) = (0.0, 0.0);
    for (x, y, ended) in points() {
        product += (x - load) * (y - success) * ended;
        square += (x - load) * (x - load) * ended;
    }
    let slope = -product / square;
    // None, a single load, or one that is nothing but luck.
    if !slope.is_finite() || slope <= 0.0 {
        return None;
    }
    let share = knee.success();
    let error = (share * (1.0 - share) / knee.ended as f64).sqrt() / slope;
    (error > 0.0 && error < 1.0).then_some(error)
}

impl Tried {
    fn success(&self) -> f64 {
        self.committed as f64 / self.ended as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_success_over_the_slope() {
        // Success falls by 0.2 for each unit of ln(load), and is 0.95 at 1.
        let at = |load: f64| Tried { load, ended: 10_000, committed: ((0.95 - 0.2 * load.ln()) * 1e4) as u64 };
        let tried = [at(0.8), at(0.9), at(1.0), at(1.1), at(30.0)];
        let error = relative_error(&tried, at(1.0)).unwrap();
        let expected = (0.95_f64 * 0.05 / 1e4).sqrt() / 0.2;
        assert!((error / expected - 1.0).abs() < 0.02, "{error}, not {expected}");
    }

    #[test]
    fn without_a_slope_there_is_no_error_to_tell() {
        let at = |load, committed| Tried { load, ended: 100, committed };
        assert_eq!(relative_error(&[at(1.0, 95)], at(1.0, 95)), None);
        assert_eq!(relative_error(&[at(1.0, 95), at(1.1, 96)], at(1.0, 95)), None);
        assert_eq!(relative_error(&[], at(1.0, 0)), None);
    }
}
