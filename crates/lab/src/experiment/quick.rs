//! What does `--quick` leave out of an experiment?

use crate::experiment::ALTERNATIVE;
use crate::experiment::sweep::AxisPlan;

/// Values kept of an axis of numbers.
const KEPT: usize = 3;

/// The number of seeds.
pub(super) const SEEDS: u64 = 1;

/// Thins the axes.
///
/// Of the loads every second one stays, but not the first of the list: usually it is the heaviest and takes as long as
/// all others together. Of other numbers three stay, including the ends. Other axes, such as providers, keep all
/// values. The duration stays too: a shorter one would change the results, because work takes minutes.
pub(super) fn thin(axes: &mut [AxisPlan]) {
    for axis in axes.iter_mut() {
        let mut index = 0;
        if axis.key == "arrivals.scale" && axis.choices.len() > KEPT {
            axis.choices.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        } else if axis.choices.len() > KEPT && axis.key != ALTERNATIVE && axis.choices.iter().all(is_number) {
            let last = axis.choices.len() - 1;
            let kept: [usize; KEPT] = std::array::from_fn(|n| (n * last).div_ceil(KEPT - 1));
            axis.choices.retain(|_| {
                index += 1;
                kept.contains(&(index - 1))
            });
        }
    }
}

/// The warning for the reader, with the axes without `--quick` and with it.
pub(super) fn note(whole: &[AxisPlan], thinned: &[AxisPlan]) -> String {
    let (before, after) = (count(whole), count(thinned));
    let points = if after < before { format!("{after} of {before} points, ") } else { String::new() };
    format!("Coarse (--quick): {points}one seed. Run it without --quick before you rely on the results.")
}

fn count(axes: &[AxisPlan]) -> usize {
    axes.iter().map(|axis| axis.choices.len()).product()
}

/// Numbers and quantities begin with a digit.
fn is_number(choice: &crate::experiment::sweep::Choice) -> bool {
    choice.display.starts_with(|first: char| first.is_ascii_digit())
}
