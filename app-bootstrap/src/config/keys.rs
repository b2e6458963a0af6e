//! `docs/registries/env-keys.yaml` against the structs that read a profile and against every place
//! that reads the environment.
//!
//! Invariant: the code's side is never written down here. A probing deserializer walks the raw
//! structs and notes each key, its type, and whether leaving it out is refused; a scan of the
//! sources finds the variables.

use super::digest::PLACES;
use super::raw::{RawEndpoints, RawFile};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Seen = RefCell<BTreeMap<String, &'static str>>;
type Refused = de::value::Error;

/// Answers every question of a struct with some value, and notes what was asked at which path.
#[derive(Clone)]
struct Probe<'s> {
    path: String,
    seen: &'s Seen,
    omitted: &'s str,
}

impl<'s> Probe<'s> {
    fn below(&self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self {
            path,
            ..self.clone()
        }
    }

    fn note(&self, kind: &'static str) {
        self.seen.borrow_mut().insert(self.path.clone(), kind);
    }
}

macro_rules! answers {
    ($($method:ident($kind:literal) => $visit:ident($value:expr),)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.note($kind);
            visitor.$visit($value)
        })+
    };
}

impl<'de> de::Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    answers! {
        deserialize_string("string") => visit_str("x"),
        deserialize_str("string") => visit_str("x"),
        deserialize_bool("boolean") => visit_bool(true),
        deserialize_i64("integer") => visit_i64(1),
        deserialize_u32("integer") => visit_u32(1),
        deserialize_u64("integer") => visit_u64(1),
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(de::Error::custom(format!(
            "{}: of a type that the probe does not know",
            self.path
        )))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_map(Fields {
            probe: self,
            left: fields.iter(),
            current: "",
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_map(Fields {
            probe: self,
            left: ["*"].iter(),
            current: "",
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let name = self.path.rsplit('.').next().unwrap_or_default();
        // A type that holds a list of itself is entered once.
        let element = format!("{name}[]");
        let again = self.path.split('.').any(|part| part == element);
        let path = format!("{}[]", self.path);
        visitor.visit_seq(Once((!again).then(|| Self {
            path,
            ..self.clone()
        })))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

struct Fields<'s> {
    probe: Probe<'s>,
    left: std::slice::Iter<'static, &'static str>,
    current: &'static str,
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let omitted = self.probe.omitted;
        let Some(name) = self.left.find(|name| {
            let path = self.probe.below(name).path;
            path != omitted && format!("{path}[]") != omitted
        }) else {
            return Ok(None);
        };
        self.current = name;
        seed.deserialize((*name).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(self.probe.below(self.current))
    }
}

struct Once<'s>(Option<Probe<'s>>);

impl<'de> de::SeqAccess<'de> for Once<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        self.0
            .take()
            .map(|probe| seed.deserialize(probe))
            .transpose()
    }
}

/// Every key of a type, with its type and whether it is required.
fn keys_of<T: DeserializeOwned>() -> BTreeMap<String, (&'static str, bool)> {
    let walk = |omitted: &str| {
        let seen = Seen::default();
        let probe = Probe {
            path: String::new(),
            seen: &seen,
            omitted,
        };
        T::deserialize(probe).map(|_| seen.into_inner())
    };
    walk("")
        .expect("every key has an answer")
        .into_iter()
        .map(|(key, kind)| {
            let required = walk(&key).is_err();
            (key, (kind, required))
        })
        .collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    keys: Vec<Row>,
    variables: Vec<Row>,
}

/// A key has `key` and `required`, a variable `variable` and `scope`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    #[serde(alias = "variable")]
    key: String,
    scope: Option<String>,
    required: Option<bool>,
    owner: String,
    r#type: String,
    #[expect(dead_code, reason = "it must be there, and may be of any type")]
    default: serde_json::Value,
    allowed: String,
    secret: String,
    validation: String,
    compatibility: String,
    required_test: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> Page {
    let text = std::fs::read_to_string(root().join("docs/registries/env-keys.yaml")).expect("page");
    serde_saphyr::from_str(&text).expect("the page's shape")
}

/// Every source file of the workspace.
fn sources() -> Vec<String> {
    let mut folders: Vec<PathBuf> = [
        "adapters",
        "app-bootstrap",
        "application-core",
        "domain-core",
        "examples",
        "shared-contract",
        "xtask",
    ]
    .map(|folder| root().join(folder))
    .into();
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                texts.push(std::fs::read_to_string(&path).expect("source"));
            }
        }
    }
    texts
}

/// Variables that the sources read: the arguments of the reading functions, every constant with
/// the product's prefix, and what two libraries read when they are asked to.
fn variables_of(sources: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in sources {
        for (call, variable) in [
            (concat!("try_from_", "default_env()"), "RUST_LOG"),
            (concat!("FailScenario", "::setup()"), "FAILPOINTS"),
        ] {
            if text.contains(call) {
                found.insert(variable.to_owned());
            }
        }
        for call in [concat!("env::", "var(\""), concat!("env::", "var_os(\"")] {
            found.extend(
                text.split(call)
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned),
            );
        }
        found.extend(
            text.split(concat!("\"COUNTER", "SIGN_"))
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
                .map(|name| format!("COUNTERSIGN_{name}")),
        );
    }
    found
}

#[test]
fn the_page_lists_exactly_the_keys_that_are_read() {
    let same_as_current = |key: &str| key.replace("earlier-revisions[].", "");
    let mut read: BTreeMap<String, (String, bool)> = BTreeMap::new();
    let endpoints = keys_of::<RawEndpoints>()
        .into_iter()
        .map(|(key, told)| (format!("endpoints:{key}"), told));
    for (key, (kind, required)) in keys_of::<RawFile>().into_iter().chain(endpoints) {
        let told = (kind.to_owned(), required);
        let earlier = read.insert(same_as_current(&key), told.clone());
        assert!(earlier.is_none_or(|earlier| earlier == told), "{key}");
    }
    let listed: BTreeMap<_, _> = page()
        .keys
        .into_iter()
        .map(|row| (row.key, (row.r#type, row.required.expect("a key says it"))))
        .collect();
    assert_eq!(listed, read);
    assert!(listed.len() > 60, "{} keys", listed.len());
}

#[test]
fn the_page_lists_exactly_the_variables_that_are_read() {
    let listed: BTreeSet<_> = page().variables.into_iter().map(|row| row.key).collect();
    assert_eq!(listed, variables_of(&sources()));
}

/// What is called a place or a reference is what the settings' digest leaves out.
#[test]
fn places_and_references_are_left_out_of_the_digest() {
    for row in page().keys {
        let leaf = row.key.rsplit(['.', ':']).next().unwrap_or_default();
        let left_out = PLACES.contains(&leaf.trim_end_matches("[]"));
        let classified = ["place", "reference"].contains(&row.secret.as_str());
        assert_eq!(left_out, classified, "{}", row.key);
    }
}

#[test]
fn every_row_is_filled_in_and_names_a_test_that_exists() {
    let sources = sources();
    let page = page();
    let mut seen = BTreeSet::new();
    for row in page.keys.iter().chain(&page.variables) {
        let name = &row.key;
        assert!(seen.insert(name.clone()), "{name} is listed twice");
        assert_ne!(row.required.is_some(), row.scope.is_some(), "{name}");
        let tested = match row.scope.as_deref() {
            None | Some("product") => true,
            Some(scope) => !["test", "tool"].contains(&scope),
        };
        for text in [
            &row.owner,
            &row.allowed,
            &row.validation,
            &row.compatibility,
        ] {
            assert!(!text.trim().is_empty(), "{name}");
        }
        let classes = ["none", "place", "sensitive", "reference", "secret"];
        assert!(classes.contains(&row.secret.as_str()), "{name}");
        assert!(
            row.required_test.is_some() || !tested,
            "{name} names no test"
        );
        if let Some(test) = &row.required_test {
            let function = format!("fn {test}(");
            assert!(
                sources.iter().any(|text| text.contains(&function)),
                "{name}: no test {test}"
            );
        }
    }
}

/// The probe itself: optional, defaulted and nested keys are told apart.
#[test]
fn the_probe_sees_what_a_struct_reads() {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its shape matters")]
    struct Planted {
        needed_text: String,
        perhaps: Option<u32>,
        #[serde(default)]
        list: Vec<Planted>,
        inner: BTreeMap<String, bool>,
    }
    let keys = keys_of::<Planted>();
    let told: Vec<_> = keys
        .iter()
        .map(|(key, told)| (key.as_str(), *told))
        .collect();
    assert_eq!(
        told,
        [
            ("inner.*", ("boolean", false)),
            ("list[].inner.*", ("boolean", false)),
            ("list[].needed-text", ("string", true)),
            ("list[].perhaps", ("integer", false)),
            ("needed-text", ("string", true)),
            ("perhaps", ("integer", false)),
        ]
    );
}
