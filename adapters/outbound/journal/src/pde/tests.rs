//! The codec against the specification's own examples, its limits, and random values.

use proptest::prelude::*;

use super::{
    Ascii, Encoder, Error, ErrorKind, Float, Integer, MAX_DEPTH, Reader, Utc, Value, check,
};

fn encoded(fill: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::new();
    fill(&mut encoder);
    encoder.into_bytes()
}

fn refusal(bytes: &[u8]) -> Error {
    check(bytes).expect_err("these bytes are not canonical")
}

#[test]
fn integers_take_the_codes_and_bytes_of_the_specification() {
    let cases: [(i64, &[u8]); 12] = [
        (0, &[0x04, 0x00]),
        (255, &[0x04, 0xff]),
        (511, &[0x05, 0xff, 0x01]),
        (3747, &[0x05, 0xa3, 0x0e]),
        (65_536, &[0x06, 0x00, 0x00, 0x01]),
        (-1, &[0x0c, 0x00]),
        (-128, &[0x0c, 0x7f]),
        (-256, &[0x0c, 0xff]),
        (-257, &[0x0d, 0x00, 0x01]),
        (-512, &[0x0d, 0xff, 0x01]),
        (
            i64::MAX,
            &[0x0b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
        (
            i64::MIN,
            &[0x13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
    ];
    for (number, bytes) in cases {
        let value = Integer::from(number);
        assert_eq!(encoded(|e| _ = e.integer(Some(value))), bytes, "{number}");
        assert_eq!(
            Reader::new(bytes).value(),
            Ok(Value::Int(Some(value))),
            "{number}"
        );
        assert_eq!(value.as_i64(), Some(number));
        assert_eq!(value.as_u64(), u64::try_from(number).ok());
    }
}

#[test]
fn the_widest_integers_are_values_that_a_signed_integer_does_not_hold() {
    let positive = [0x0b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let mut negative = positive;
    negative[0] = 0x13;
    for (bytes, unsigned) in [(positive, Some(u64::MAX)), (negative, None)] {
        let Ok(Value::Int(Some(integer))) = Reader::new(&bytes).value() else {
            panic!("an integer");
        };
        assert_eq!(integer.as_i64(), None);
        assert_eq!(integer.as_u64(), unsigned);
        assert_eq!(encoded(|e| _ = e.integer(Some(integer))), bytes);
    }
}

#[test]
fn nulls_carry_the_code_of_their_kind() {
    let bytes = encoded(|e| {
        e.boolean(None)
            .integer(None)
            .float(None)
            .bytes(None)
            .ascii(None)
            .utf8(None)
            .utc(None)
            .null_object();
    });
    assert_eq!(bytes, [0, 3, 20, 23, 48, 73, 98, 143]);
}

#[test]
fn bodies_switch_from_inline_to_length_bytes_at_sixteen() {
    let body = [7_u8; 65_536];
    for (length, header) in [
        (0, vec![0x18]),
        (15, vec![0x27]),
        (16, vec![0x28, 0x10]),
        (32, vec![0x28, 0x20]),
        (255, vec![0x28, 0xff]),
        (256, vec![0x29, 0x00, 0x01]),
        (65_535, vec![0x29, 0xff, 0xff]),
        (65_536, vec![0x2a, 0x00, 0x00, 0x01]),
    ] {
        let bytes = encoded(|e| _ = e.bytes(Some(&body[..length])));
        assert_eq!(&bytes[..header.len()], header, "{length}");
        assert_eq!(bytes.len(), super::code::sized_len(length));
        assert_eq!(
            Reader::new(&bytes).value(),
            Ok(Value::Bytes(Some(&body[..length])))
        );
    }
}

#[test]
fn an_object_takes_the_fewest_length_bytes() {
    let small = encoded(|e| _ = e.object(|inner| _ = inner.boolean(Some(true))));
    assert_eq!(small, [0x90, 0x01, 0x01]);
    let empty = encoded(|e| _ = e.object(|_| ()));
    assert_eq!(empty, [0x90, 0x00]);
    let large = encoded(|e| _ = e.object(|inner| _ = inner.bytes(Some(&[0; 300]))));
    assert_eq!(&large[..3], [0x91, 0x2f, 0x01]);
}

#[test]
fn widths_that_are_not_minimal_are_refused() {
    let cases: [&[u8]; 9] = [
        &[0x05, 0x01, 0x00],             // 1 in two bytes
        &[0x0d, 0x00, 0x00],             // −1 in two bytes
        &[0x0b, 0, 0, 0, 0, 0, 0, 0, 0], // 0 in eight bytes
        &[0x28, 0x00],                   // empty bytes with a length byte
        &[0x28, 0x02, 0xaa, 0xaa],       // two bytes with a length byte
        &[0x41, 0x01, b'a'],             // one character with a length byte
        &[
            0x29, 0x10, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        ], // 16 in two length bytes
        &[0x91, 0x01, 0x00, 0x01],       // object of one byte, two length bytes
        &[0x5b, 0x04, 0x00, b'a', b'a', b'a', b'a'], // text of four, two length bytes
    ];
    for bytes in cases {
        let expected = Error {
            at: 0,
            kind: ErrorKind::NotMinimal,
        };
        assert_eq!(refusal(bytes), expected, "{bytes:02x?}");
    }
}

#[test]
fn codes_outside_the_subset_are_refused_and_all_others_are_known() {
    for tag in 0..=255_u8 {
        let mut bytes = [0_u8; 64];
        bytes[0] = tag;
        let forbidden = matches!(tag, 108..=142 | 152..=255);
        let refused = matches!(
            Reader::new(&bytes).value(),
            Err(Error { kind: ErrorKind::Code(seen), at: 0 }) if seen == tag
        );
        assert_eq!(refused, forbidden, "code {tag}");
    }
}

#[test]
fn a_value_that_runs_past_its_end_is_refused_where_it_starts() {
    let whole = encoded(|e| {
        e.boolean(Some(true)).object(|inner| {
            inner
                .utf8(Some("ä long enough text"))
                .integer(Some(Integer::from(70_000_u64)));
        });
    });
    check(&whole).expect("the whole is canonical");
    for length in 2..whole.len() {
        assert_eq!(
            refusal(&whole[..length]),
            Error {
                at: 1,
                kind: ErrorKind::PastEnd
            }
        );
    }
    let huge = [0x2f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(refusal(&huge).kind, ErrorKind::PastEnd);
}

#[test]
fn errors_inside_objects_count_from_the_outermost_byte() {
    let bytes = [0x01, 0x90, 0x04, 0x01, 0x90, 0x01, 0x6c];
    assert_eq!(
        refusal(&bytes),
        Error {
            at: 6,
            kind: ErrorKind::Code(0x6c)
        }
    );
}

#[test]
fn text_is_checked() {
    assert_eq!(refusal(&[0x32, 0x80]).kind, ErrorKind::NotAscii);
    // Overlong slash, lone surrogate, cut sequence.
    for body in [&[0xc0_u8, 0xaf][..], &[0xed, 0xa0, 0x80], &[0xe2, 0x82]] {
        let mut bytes = vec![74 + body.len() as u8];
        bytes.extend_from_slice(body);
        assert_eq!(refusal(&bytes).kind, ErrorKind::NotUtf8, "{body:02x?}");
    }
    assert_eq!(Ascii::new("ä"), None);
    assert_eq!(Utc::new(&[0]), None);
    assert_eq!(Utc::new(&[0; 11]), None);
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        (0..levels).fold(Vec::new(), |inner, _| {
            let mut encoder = Encoder::new();
            encoder.object(|e| rewrite(Reader::new(&inner), e));
            encoder.into_bytes()
        })
    };
    check(&nested(MAX_DEPTH)).expect("the deepest allowed");
    assert_eq!(refusal(&nested(MAX_DEPTH + 1)).kind, ErrorKind::TooDeep);
}

/// An owned value, so that proptest can build trees.
#[derive(Clone, Debug)]
enum Tree {
    Bool(Option<bool>),
    Signed(Option<i64>),
    Unsigned(u64),
    Four(u32),
    Eight(Option<u64>),
    Bytes(Option<Vec<u8>>),
    Ascii(Option<String>),
    Utf8(Option<String>),
    Utc(Option<Vec<u8>>),
    Object(Option<Vec<Tree>>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        any::<Option<bool>>().prop_map(Tree::Bool),
        any::<Option<i64>>().prop_map(Tree::Signed),
        (any::<i64>(), 0..64).prop_map(|(number, shift)| Tree::Signed(Some(number >> shift))),
        any::<u64>().prop_map(Tree::Unsigned),
        any::<u32>().prop_map(Tree::Four),
        any::<Option<u64>>().prop_map(Tree::Eight),
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)).prop_map(Tree::Bytes),
        proptest::option::of("[ -~]{0,40}").prop_map(Tree::Ascii),
        proptest::option::of("\\PC{0,40}").prop_map(Tree::Utf8),
        proptest::option::of(proptest::collection::vec(any::<u8>(), 2..=10)).prop_map(Tree::Utc),
        Just(Tree::Object(None)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        proptest::collection::vec(inner, 0..6).prop_map(|values| Tree::Object(Some(values)))
    })
}

fn write(encoder: &mut Encoder, tree: &Tree) {
    match tree {
        Tree::Bool(value) => encoder.boolean(*value),
        Tree::Signed(value) => encoder.integer(value.map(Integer::from)),
        Tree::Unsigned(value) => encoder.integer(Some(Integer::from(*value))),
        Tree::Four(bits) => encoder.float(Some(Float::Four(f32::from_bits(*bits)))),
        Tree::Eight(bits) => encoder.float(bits.map(|bits| Float::Eight(f64::from_bits(bits)))),
        Tree::Bytes(value) => encoder.bytes(value.as_deref()),
        Tree::Ascii(value) => encoder.ascii(value.as_deref().and_then(Ascii::new)),
        Tree::Utf8(value) => encoder.utf8(value.as_deref()),
        Tree::Utc(value) => encoder.utc(value.as_deref().and_then(Utc::new)),
        Tree::Object(None) => encoder.null_object(),
        Tree::Object(Some(values)) => encoder.object(|inner| {
            for value in values {
                write(inner, value);
            }
        }),
    };
}

/// Reads every value of a reader back into a tree; signed and unsigned meet in one form.
fn read(mut reader: Reader<'_>) -> Result<Vec<Tree>, Error> {
    let mut values = Vec::new();
    while !reader.is_at_end() {
        values.push(match reader.value()? {
            Value::Bool(value) => Tree::Bool(value),
            Value::Int(None) => Tree::Signed(None),
            Value::Int(Some(integer)) => match (integer.as_u64(), integer.as_i64()) {
                (Some(value), _) => Tree::Unsigned(value),
                (None, signed) => Tree::Signed(signed),
            },
            Value::Float(None) => Tree::Eight(None),
            Value::Float(Some(Float::Four(value))) => Tree::Four(value.to_bits()),
            Value::Float(Some(Float::Eight(value))) => Tree::Eight(Some(value.to_bits())),
            Value::Bytes(value) => Tree::Bytes(value.map(<[u8]>::to_vec)),
            Value::Ascii(value) => Tree::Ascii(value.map(|text| text.as_str().to_owned())),
            Value::Utf8(value) => Tree::Utf8(value.map(str::to_owned)),
            Value::Utc(value) => Tree::Utc(value.map(|utc| utc.as_bytes().to_vec())),
            Value::Object(None) => Tree::Object(None),
            Value::Object(Some(object)) => Tree::Object(Some(read(object.values())?)),
        });
    }
    Ok(values)
}

fn comparable(tree: Tree) -> String {
    fn normal(tree: Tree) -> Tree {
        match tree {
            Tree::Signed(Some(value)) if value >= 0 => Tree::Unsigned(value.unsigned_abs()),
            Tree::Object(Some(values)) => {
                Tree::Object(Some(values.into_iter().map(normal).collect()))
            }
            other => other,
        }
    }
    format!("{:?}", normal(tree))
}

fn rewrite(mut reader: Reader<'_>, encoder: &mut Encoder) {
    while !reader.is_at_end() {
        match reader.value().expect("checked before") {
            Value::Object(Some(object)) => {
                encoder.object(|inner| rewrite(object.values(), inner));
            }
            other => _ = encoder.value(other),
        }
    }
}

proptest! {
    #[test]
    fn values_survive_a_round_trip(tree in trees()) {
        let mut encoder = Encoder::new();
        write(&mut encoder, &tree);
        let bytes = encoder.into_bytes();
        check(&bytes).expect("what the encoder writes is canonical");

        let mut back = read(Reader::new(&bytes)).expect("and readable");
        prop_assert_eq!(back.len(), 1);
        prop_assert_eq!(comparable(back.remove(0)), comparable(tree));

        let value = Reader::new(&bytes).value().expect("readable");
        let mut again = Encoder::new();
        again.value(value);
        prop_assert_eq!(again.into_bytes(), bytes);
    }

    #[test]
    fn whatever_is_accepted_is_written_back_byte_for_byte(
        bytes in proptest::collection::vec(prop_oneof![0..=24_u8, 48..=52_u8, 90..=107_u8, 143..=146_u8], 0..40)
    ) {
        if check(&bytes).is_ok() {
            let mut encoder = Encoder::new();
            rewrite(Reader::new(&bytes), &mut encoder);
            prop_assert_eq!(encoder.into_bytes(), bytes);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Err(error) = check(&bytes) {
            prop_assert!(error.at < bytes.len());
        }
    }
}
