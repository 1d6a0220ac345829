use proptest::prelude::*;

use super::*;
use crate::testing::{any_bytes, bytes, numbers};

#[test]
fn lengths_change_where_seven_bits_more_are_needed() {
    for length in 1..=9_u32 {
        let greatest = u64::MAX >> (64 - 7 * length);
        assert_eq!(encode_unsigned(greatest).unwrap().len(), length as usize);
        let next = encode_signed((greatest + 1).cast_signed());
        assert_eq!(next.len(), length as usize + 1);
        assert_eq!(next[0].leading_ones(), length.min(8));
    }
    assert_eq!(encode_signed(-1), bytes("ff80ffffffffffffffff"));
    assert_eq!(encode_signed(i64::MIN), bytes("ff808000000000000000"));
    assert_eq!(encode_signed(i64::MIN).len(), LONGEST);
}

#[test]
fn wrong_numbers_are_refused_for_their_reason() {
    let refused = |digits| decode_signed(&bytes(digits)).unwrap_err();
    let not_shortest = |number, length, shortest| VarLongError::NotShortest { number, length, shortest };
    assert_eq!(refused(""), VarLongError::Empty);
    assert_eq!(refused("80"), VarLongError::CutOff { length: 2, found: 1 });
    assert_eq!(refused("ff"), VarLongError::CutOff { length: 9, found: 1 });
    assert_eq!(refused("ff80"), VarLongError::CutOff { length: 10, found: 2 });
    assert_eq!(refused("0000"), VarLongError::Trailing { length: 1, found: 2 });
    assert_eq!(refused("ff80ffffffffffffffff00"), VarLongError::Trailing { length: 10, found: 11 });
    assert_eq!(refused("8000"), not_shortest(0, 2, 1));
    assert_eq!(refused("807f"), not_shortest(127, 2, 1));
    assert_eq!(refused("c03fff"), not_shortest(16_383, 3, 2));
    assert_eq!(refused("ff00ffffffffffffff"), not_shortest((1 << 56) - 1, 9, 8));
    assert_eq!(refused("ff807fffffffffffffff"), not_shortest(GREATEST_UNSIGNED, 10, 9));
    assert_eq!(refused("ff81ffffffffffffffff"), VarLongError::MoreThan64Bits { second: 0x81 });
    assert_eq!(refused("ffbfffffffffffffffff"), VarLongError::MoreThan64Bits { second: 0xbf });
    assert_eq!(refused("ffc0ffffffffffffffff"), VarLongError::TooLong);
    assert_eq!(refused("ffff"), VarLongError::TooLong);
    let beyond = VarLongError::Beyond { found: 1 << 63 };
    assert_eq!(decode_unsigned(&encode_signed(i64::MIN)), Err(beyond));
    assert_eq!(encode_unsigned(1 << 63), Err(beyond));
    let words = "the number is 9223372036854775808, or -9223372036854775808 as a signed one; \
                 it must be from 0 to 9223372036854775807";
    assert_eq!(beyond.to_string(), words);
}

/// All strings of up to two bytes, and all first three bytes of strings of ten.
#[test]
fn short_strings_decode_only_if_they_encode_back() {
    let mut good = 0;
    for first in 0..=u8::MAX {
        good += u32::from(decode_signed(&[first]).is_ok_and(|number| encode_signed(number) == [first][..]));
        for second in 0..=u8::MAX {
            let two = [first, second];
            if let Ok(number) = decode_signed(&two) {
                assert_eq!(encode_signed(number), two[..]);
                good += 1;
            }
            for third in [0, 1, 0x7f, 0x80, 0xff] {
                let ten = [first, second, third, 1, 2, 3, 4, 5, 6, 7];
                if let Ok(number) = decode_signed(&ten) {
                    assert_eq!((number < 0, encode_signed(number)), (true, Bytes::copy_from_slice(&ten)));
                }
            }
        }
    }
    assert_eq!(good, 16_384, "128 numbers of one byte, and the others below 16,384 of two");
}

proptest! {
    #[test]
    fn numbers_decode_to_themselves(number in numbers()) {
        let signed = number.cast_signed();
        prop_assert_eq!(decode_signed(&encode_signed(signed)), Ok(signed));
        match encode_unsigned(number) {
            Ok(bytes) => prop_assert_eq!(decode_unsigned(&bytes), Ok(number)),
            Err(error) => {
                prop_assert!(number > GREATEST_UNSIGNED);
                prop_assert_eq!(error, VarLongError::Beyond { found: number });
            }
        }
    }

    #[test]
    fn byte_order_is_the_order_of_unsigned_numbers(one in numbers(), other in numbers()) {
        let (one, other) = (one & GREATEST_UNSIGNED, other & GREATEST_UNSIGNED);
        prop_assert_eq!(one.cmp(&other), encode_unsigned(one).unwrap().cmp(&encode_unsigned(other).unwrap()));
    }

    #[test]
    fn byte_order_is_the_order_of_signed_numbers_of_one_sign(one in numbers(), other in numbers()) {
        let (one, other) = (one.cast_signed(), other.cast_signed());
        let written = encode_signed(one).cmp(&encode_signed(other));
        if (one < 0) == (other < 0) {
            prop_assert_eq!(one.cmp(&other), written);
        } else {
            prop_assert_eq!(other.cmp(&one), written);
        }
    }

    #[test]
    fn what_decodes_encodes_back(bytes in any_bytes()) {
        if let Ok(number) = decode_signed(&bytes) {
            prop_assert_eq!(encode_signed(number), &bytes);
        }
        if let Ok(number) = decode_unsigned(&bytes) {
            prop_assert_eq!(encode_unsigned(number), Ok(bytes));
        }
    }
}
