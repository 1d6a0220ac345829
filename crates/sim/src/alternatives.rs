//! Which other profiles does the same measurement allow? Some from its trials drawn anew, and two with the earliest and
//! the latest effect time that the measurement allows. The spread of a simulation's results over them shows how much
//! the sampling error of the measurement contributes.
//!
//! They are in a separate file that the profile names: the numbers of each operation, once per alternative, without
//! their sources.

use serde::{Deserialize, Serialize};

use crate::profile::{OperationProfile, Profile, ProfileError, range};

/// The content of a file of alternatives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternatives {
    /// The version of the format: [`Alternatives::VERSION`].
    pub version: u32,
    /// The profile that these are alternatives to: its [`Profile::fingerprint`].
    pub of: String,
    /// From the trials drawn anew, each as likely as any other.
    #[serde(default)]
    pub sampling: Vec<Alternative>,
    /// Writes take effect as early as the measurement allows; absent if they do so in the profile itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Alternative>,
    /// The same, as late as the measurement allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Alternative>,
}

/// The operations of an alternative: as in a [`Profile`], without sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are those of a profile")]
pub struct Alternative {
    pub get: OperationProfile,
    pub put: OperationProfile,
    pub conditional_put: OperationProfile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append: Option<OperationProfile>,
}

impl Alternatives {
    /// The version that this program reads and writes.
    pub const VERSION: u32 = 1;

    /// Reads the alternatives to a profile and checks them.
    ///
    /// # Errors
    /// [`ProfileError`] names the field, what was found and what is allowed: another version, those of another profile,
    /// or a number out of its range.
    pub fn parse(text: &str, profile: &Profile) -> Result<Self, ProfileError> {
        let found: Self = toml::from_str(text)?;
        if found.version != Self::VERSION {
            let allowed = "1: measure the store with this version of the program";
            return Err(range("version".to_owned(), &found.version.to_string(), allowed));
        }
        if found.of != profile.fingerprint() {
            let allowed = "the fingerprint of the profile beside it, as it was measured: measure again, or take \
                           measured.alternatives out of a profile that was changed by hand";
            return Err(range("of".to_owned(), &found.of, allowed));
        }
        for (name, alternative) in found.by_name() {
            let with = alternative.profile(profile);
            if with.append.is_some() != profile.append.is_some() {
                let found = if with.append.is_some() { "it" } else { "none" };
                return Err(range(format!("{name}.append"), found, "one exactly where the profile has one"));
            }
            with.check_numbers().map_err(|error| match error {
                ProfileError::Range { field, found, allowed } => range(format!("{name}.{field}"), &found, allowed),
                other @ ProfileError::Shape(_) => other,
            })?;
        }
        Ok(found)
    }

    /// As a file's text.
    ///
    /// # Errors
    /// The error of the TOML writer; numbers and names cannot cause one.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        let text = toml::to_string(self)?;
        Ok(format!("# Made by `glidepath measure`; see docs/measure.md, \"From measurement to knee\".\n\n{text}"))
    }

    fn by_name(&self) -> impl Iterator<Item = (String, &Alternative)> {
        let sampling = self.sampling.iter().enumerate().map(|(n, one)| (format!("sampling[{n}]"), one));
        let effect = [("earliest", self.earliest.as_ref()), ("latest", self.latest.as_ref())];
        sampling.chain(effect.into_iter().filter_map(|(name, one)| Some((name.to_owned(), one?))))
    }
}

impl Alternative {
    /// The operations of a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let bare = |of: &OperationProfile| OperationProfile { source: String::new(), ..of.clone() };
        Self {
            get: bare(&profile.get),
            put: bare(&profile.put),
            conditional_put: bare(&profile.conditional_put),
            append: profile.append.as_ref().map(bare),
        }
    }

    /// The profile with these operations instead of its own.
    #[must_use]
    pub fn profile(&self, profile: &Profile) -> Profile {
        let Self { get, put, conditional_put, append } = self.clone();
        Profile { get, put, conditional_put, append, ..profile.clone() }
    }
}

impl Profile {
    /// A hash of this profile's numbers, as sixteen hexadecimal digits: FNV-1a, 64 bits (Fowler, Noll and Vo, 1991), of
    /// its operations as TOML.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let bare = Self { measured: None, ..self.clone() };
        // A structure of strings and numbers always has a TOML form.
        let text = toml::to_string(&bare).unwrap_or_else(|error| panic!("a profile has no TOML form: {error}"));
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use glidepath_model::Span;

    use super::*;
    use crate::{Component, ContendedProfile, Distribution};

    fn measured() -> Profile {
        let mut profile = Profile::constant(Span::from_nanos(12_345_000));
        let component = Component { weight: 0.123_45, median: Span::from_nanos(1_234_567), sigma: 0.1 + 0.2 };
        let mixture = Distribution { floor: Span::from_nanos(77), mixture: vec![component], quantiles: Vec::new() };
        let knot = |writers| ContendedProfile {
            writers,
            hold: Span::from_nanos(10_000 * u64::from(writers)),
            success: mixture.clone(),
            failure: (writers > 1).then(|| mixture.clone()),
        };
        profile.conditional_put.contended = vec![knot(1), knot(4)];
        profile.conditional_put.effect_share = Some(0.25);
        profile
    }

    fn alternatives(profile: &Profile) -> Alternatives {
        let mut late = Alternative::of(profile);
        late.conditional_put.effect_share = Some(1.0);
        Alternatives {
            version: Alternatives::VERSION,
            of: profile.fingerprint(),
            sampling: vec![Alternative::of(profile); 3],
            earliest: None,
            latest: Some(late),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let profile = measured();
        let written = alternatives(&profile);
        let text = written.text().unwrap();
        assert!(!text.contains("source"), "{text}");
        // The profile comes from a file too.
        let read = Profile::parse(&toml::to_string(&profile).unwrap()).unwrap();
        assert_eq!(read.fingerprint(), profile.fingerprint());
        assert_eq!(Alternatives::parse(&text, &read).unwrap(), written);
        assert_eq!(written.sampling[0].profile(&profile).conditional_put.contended, profile.conditional_put.contended);
    }

    #[test]
    fn what_does_not_fit_the_profile_is_refused_with_its_field() {
        let profile = measured();
        let good = alternatives(&profile);
        let told = |wrong: &Alternatives, profile: &Profile| {
            Alternatives::parse(&wrong.text().unwrap(), profile).unwrap_err().to_string()
        };
        let newer = Alternatives { version: 2, ..good.clone() };
        assert!(told(&newer, &profile).starts_with("version: found 2; allowed: 1"));
        let mut changed = profile.clone();
        changed.get.median = Span::from_millis(9);
        assert!(told(&good, &changed).starts_with("of: found "), "{}", told(&good, &changed));
        let mut steep = good.clone();
        steep.sampling[1].put.sigma = 9.0;
        assert!(told(&steep, &profile).starts_with("sampling[1].put.sigma: found 9"), "{}", told(&steep, &profile));
        let mut later = good.clone();
        later.latest.as_mut().unwrap().conditional_put.effect_share = Some(1.5);
        assert!(told(&later, &profile).starts_with("latest.conditional_put.effect_share"));
        let mut without = good;
        without.sampling[0].append = None;
        assert!(told(&without, &profile).starts_with("sampling[0].append: found none"));
        let unknown = Alternatives::parse("version = 1\nof = \"\"\nmore = 2", &profile).unwrap_err().to_string();
        assert!(unknown.contains("unknown field `more`"), "{unknown}");
    }

    #[test]
    fn a_profile_names_the_source_of_every_operation() {
        let mut profile = measured();
        profile.put.source.clear();
        let error = Profile::parse(&toml::to_string(&profile).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("put.source: found nothing"), "{error}");
    }
}
