//! How is a number on an axis written, and which numbers are worth a tick?

/// Suffixes for thousands of thousands.
const SUFFIXES: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Least value that gets a suffix on its own; smaller ones do when they share an axis with it.
const MILLION: f64 = 1e6;

/// Values from here on are never written out.
const LONGEST: f64 = 1e15;

/// The labels of one axis, written alike. `step` is the distance of ticks on a linear axis.
pub(crate) fn labels(values: &[f64], step: Option<f64>) -> Vec<String> {
    let greatest = values.iter().fold(0.0_f64, |max, v| max.max(v.abs()));
    let unit = SUFFIXES.iter().find(|(unit, _)| greatest >= *unit);
    let unit = unit.map_or(1.0, |(unit, _)| *unit);
    // Not where neighbours would differ in far decimals only, as 1.00001M and 1.00002M do.
    let short = step.is_none_or(|step| decimals(step / unit) <= 2);
    let suffixed = greatest >= MILLION && (short || greatest >= LONGEST);
    values.iter().map(|&value| label(value, step, suffixed)).collect()
}

fn label(value: f64, step: Option<f64>, suffixed: bool) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    if !(1e-4..1e18).contains(&size) {
        return format!("{sign}{}", exponential(size));
    }
    let suffix = SUFFIXES.iter().find(|(unit, _)| suffixed && size >= *unit);
    let &(unit, suffix) = suffix.unwrap_or(&(1.0, ""));
    let mut digits = match step {
        Some(step) => format!("{:.*}", decimals(step / unit), size / unit),
        None => format!("{}", size / unit),
    };
    if !suffix.is_empty() && digits.contains('.') {
        digits = digits.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{sign}{}{suffix}", grouped(&digits))
}

fn exponential(size: f64) -> String {
    let text = format!("{size:.2e}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            format!("{digits}e{}", power.replace('-', "−"))
        }
        None => text,
    }
}

/// Decimals that a multiple of `step` needs.
fn decimals(step: f64) -> usize {
    // A float cast saturates: steps of one and more need none.
    (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize
}

/// Commas between groups of three digits before the decimal point.
fn grouped(digits: &str) -> String {
    let (whole, rest) = digits.find('.').map_or((digits, ""), |at| digits.split_at(at));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(rest);
    out
}

/// The multiples of a round step within `low..=high`, about `count` of them, and the step.
pub(crate) fn linear_ticks(low: f64, high: f64, count: usize) -> (Vec<f64>, f64) {
    let step = round_step((high - low) / count.max(1) as f64);
    let slack = (high - low) * 1e-9;
    let first = ((low - slack) / step).ceil();
    let values = (0..=count * 3)
        .map(|index| (first + index as f64) * step)
        .take_while(|value| *value <= high + slack)
        // Adding zero turns a negative zero into zero.
        .map(|value| value + 0.0)
        .collect();
    (values, step)
}

/// The least 1, 2 or 5 times a power of ten that is not below `least`.
pub(crate) fn round_step(least: f64) -> f64 {
    let power = least.log10().floor() as i32;
    let mut candidates = [1, 2, 5, 10].map(|digit| power_of_ten(digit, power)).into_iter();
    candidates.find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(least)
}

/// The values `digit` times a power of ten within `low..=high`, of every power that is a multiple
/// of `every`.
pub(crate) fn decade_ticks(low: f64, high: f64, digits: &[u32], every: i32) -> Vec<f64> {
    // Bounded: logarithms of finite numbers lie within -324..=309.
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let (low, high) = (low * (1.0 - 1e-9), high * (1.0 + 1e-9));
    (first..=last)
        .filter(|power| power.rem_euclid(every.max(1)) == 0)
        .flat_map(|power| digits.iter().map(move |&digit| power_of_ten(digit, power)))
        .filter(|value| (low..=high).contains(value))
        .collect()
}

/// Through decimal text, so that the number is the one nearest to what its label says.
fn power_of_ten(digit: u32, power: i32) -> f64 {
    format!("{digit}e{power}").parse().unwrap_or(f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[f64], step: Option<f64>) -> Vec<String> {
        labels(values, step)
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(written(&[0.0, 0.5, 1.0], Some(0.5)), ["0", "0.5", "1.0"]);
        assert_eq!(written(&[100.0, 10_000.0], None), ["100", "10,000"]);
        assert_eq!(written(&[500e3, 2e6], Some(500e3)), ["500k", "2M"]);
        assert_eq!(written(&[0.002, 0.05], None), ["0.002", "0.05"]);
        assert_eq!(written(&[-250.0], Some(50.0)), ["−250"]);
        assert_eq!(written(&[2e-7, 1e30], None), ["2e−7", "1e30"]);
        assert_eq!(written(&[1.5e6, 2e6], Some(5e5)), ["1.5M", "2M"]);
        assert_eq!(written(&[1_000_020.0], Some(10.0)), ["1,000,020"]);
        assert_eq!(written(&[3.0, 0.1], Some(1.0)), ["3", "0"]);
        assert_eq!(written(&[0.1, 0.2], Some(0.1)), ["0.1", "0.2"]);
    }

    #[test]
    fn linear_ticks_are_round() {
        let (values, step) = linear_ticks(0.0, 97.0, 5);
        assert_eq!((values, step), (vec![0.0, 20.0, 40.0, 60.0, 80.0], 20.0));
        assert_eq!(linear_ticks(-0.1, 0.1, 2).0, [-0.1, 0.0, 0.1]);
    }

    #[test]
    fn decades_hold_one_two_five() {
        let values = decade_ticks(0.5, 20.0, &[1, 2, 5], 1);
        assert_eq!(values, [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(decade_ticks(1.0, 1e6, &[1], 3), [1.0, 1e3, 1e6]);
    }
}
