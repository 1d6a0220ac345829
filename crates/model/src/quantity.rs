//! Quantities with their units: points in time, spans of time, sizes. Their text always has the unit (`"35ms"`,
//! `"100KiB"`), so a number without a unit is refused in files and arguments.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time: nanoseconds since the start of the run (simulated) or of the process (live).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of time in whole nanoseconds; at most about 584 years. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// A point this many nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Span(self.0).as_secs_f64()
    }

    /// The time that has passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// This many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// This many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The nearest whole number of nanoseconds; negative values and NaN become zero, values too large saturate.
    #[must_use]
    pub fn from_nanos_f64(nanos: f64) -> Self {
        // Adding a half and truncating rounds without a library call. Converting to a signed integer takes one
        // instruction, to an unsigned one a dozen; beyond 292 years the two differ.
        if nanos < 9.2e18 { Self((nanos + 0.5).max(0.0) as i64 as u64) } else { Self((nanos + 0.5) as u64) }
    }

    /// The span nearest to this many seconds.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self::from_nanos_f64(secs * 1e9)
    }

    /// Whole nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Half of it, rounded down.
    #[must_use]
    pub const fn half(self) -> Self {
        Self(self.0 / 2)
    }
}

impl ByteSize {
    /// This many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// Mebibytes (2^20 bytes).
    #[must_use]
    pub fn as_mib_f64(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for ByteSize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Why a text is not a quantity: what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// It is not written as one.
    #[error("\"{found}\" is not a {what}: write a number and a unit, one of {units}, such as \"{example}\"{hint}")]
    #[expect(missing_docs, reason = "the message says it all")]
    Form { found: String, what: &'static str, units: &'static str, example: &'static str, hint: &'static str },
    /// More than 64 bits hold.
    #[error("\"{found}\" is too large for a {what}: at most {most} are allowed")]
    #[expect(missing_docs, reason = "the message says it all")]
    TooLarge { found: String, what: &'static str, most: String },
}

/// The units of one kind of quantity, largest first, each with its value in the smallest unit.
struct Units {
    what: &'static str,
    names: &'static str,
    example: &'static str,
    worth: &'static [(&'static str, u64)],
    /// Units that are not allowed, in several spellings, each with what to write instead.
    others: &'static [(&'static str, &'static str)],
}

const TIME: Units = Units {
    what: "span of time",
    names: "h, min, s, ms, us, ns",
    example: "35ms",
    worth: &[
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ],
    others: &[
        ("d day days", "; for a day write 24h"),
        ("w week weeks", "; for a week write 168h"),
        ("m mins minute minutes", "; for a minute write 1min"),
        ("sec secs second seconds", "; for a second write 1s"),
        ("hr hour hours", "; for an hour write 1h"),
    ],
};

const SIZE: Units = Units {
    what: "size",
    names: "GiB, MiB, KiB, B",
    example: "100KiB",
    worth: &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
    others: &[
        ("k kB KB K", "; for a thousand bytes write 1000B, for 1024 bytes 1KiB"),
        ("M MB m mb", "; for 1024 KiB write 1MiB"),
        ("G GB g gb", "; for 1024 MiB write 1GiB"),
    ],
};

impl Units {
    fn parse(&self, text: &str) -> Result<u64, ParseQuantityError> {
        let found = || text.to_owned();
        let trimmed = text.trim();
        let error = || {
            let unit = trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
            let other = self.others.iter().find(|(names, _)| names.split(' ').any(|name| name == unit));
            let (what, units, example) = (self.what, self.names, self.example);
            ParseQuantityError::Form { found: found(), what, units, example, hint: other.map_or("", |(_, hint)| hint) }
        };
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(error)?;
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim_start();
        let worth = self.worth.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
        let too_large = || {
            let most = format!("{}{unit}", u64::MAX / worth);
            ParseQuantityError::TooLarge { found: found(), what: self.what, most }
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(worth).ok_or_else(too_large);
        }
        let value = number.parse::<f64>().map_err(|_| error())? * worth as f64;
        // Beyond 2^63 a float is too coarse to tell whether the product fits.
        if value.is_finite() && value < 9.2e18 { Ok((value + 0.5) as u64) } else { Err(too_large()) }
    }

    /// The largest unit that divides the value, so that parsing gives the same value back.
    fn write(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(_, worth): &&(&str, u64)| value >= worth && value.is_multiple_of(worth);
        let (name, worth) = self.worth.iter().find(fits).unwrap_or(&self.worth[self.worth.len() - 1]);
        write!(f, "{}{name}", value / worth)
    }
}

macro_rules! as_text {
    ($($name:ident in $units:ident),*) => {$(
        impl FromStr for $name {
            type Err = ParseQuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $units.parse(text).map(Self)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $units.write(self.0, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a {} with its unit ({}), such as \"{}\"", $units.what, $units.names, $units.example)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    )*};
}

as_text!(Span in TIME, ByteSize in SIZE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_carries_its_unit() {
        assert_eq!("35ms".parse(), Ok(Span::from_millis(35)));
        assert_eq!("1.5 s".parse(), Ok(Span::from_millis(1500)));
        assert_eq!("30min".parse(), Ok(Span::from_secs(1800)));
        assert_eq!("100KiB".parse(), Ok(ByteSize::from_bytes(102_400)));
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_units_allowed() {
        for wrong in ["35", "", "ms", "35 m", "-1s", "1.2.3s", "1e3s", "nan s"] {
            let error = wrong.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains("h, min, s, ms, us, ns"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_refused_with_the_largest() {
        for wrong in ["99999999999999999999h", "99999999h", "5124096h", "9999999999.5h"] {
            let error = wrong.parse::<Span>().unwrap_err().to_string();
            assert!(error.ends_with("is too large for a span of time: at most 5124095h are allowed"), "{error}");
        }
        assert!("5124095h".parse::<Span>().is_ok());
    }

    #[test]
    fn text_gives_the_same_value_back() {
        for nanos in [0, 1, 999, 1_000, 35_000_000, 1_500_000_000, 3_600_000_000_000, u64::MAX] {
            let span = Span::from_nanos(nanos);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn floats_round_and_saturate() {
        assert_eq!(Span::from_nanos_f64(1.5), Span::from_nanos(2));
        assert_eq!(Span::from_nanos_f64(-3.0), Span::ZERO);
        assert_eq!(Span::from_nanos_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_nanos_f64(1e300), Span::from_nanos(u64::MAX));
    }
}
