//! Numbers of twice the precision (about 31 digits): a value and what rounding took from it.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The unevaluated sum of a number and a much smaller one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extended {
    high: f64,
    low: f64,
}

fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

fn quick_two_sum(a: f64, b: f64) -> Extended {
    let high = a + b;
    Extended { high, low: b - (high - a) }
}

impl Extended {
    pub const ZERO: Self = Self { high: 0.0, low: 0.0 };
    pub const ONE: Self = Self { high: 1.0, low: 0.0 };
    pub const LN_2: Self = Self { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
    pub const TAU: Self = Self { high: std::f64::consts::TAU, low: 2.449_293_598_294_706_4e-16 };

    pub fn value(self) -> f64 {
        self.high + self.low
    }

    pub fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return if self.high < 0.0 { Self::from(f64::NAN) } else { Self::ZERO };
        }
        // One step of Newton's method from the ordinary root, twice.
        let mut root = Self::from(self.high.sqrt());
        for _ in 0..2 {
            root = (root + self / root) * 0.5.into();
        }
        root
    }

    pub fn exp(self) -> Self {
        if self.high < -700.0 {
            return Self::ZERO;
        }
        // exp x = 2ᵏ (exp(r/64))^64
        let k = (self.high / std::f64::consts::LN_2).round();
        let r = (self - Self::LN_2 * k.into()) * (1.0 / 64.0).into();
        let (mut sum, mut term) = (Self::ONE, Self::ONE);
        for i in 1..16 {
            term = term * r / f64::from(i).into();
            sum = sum + term;
        }
        for _ in 0..6 {
            sum = sum * sum;
        }
        sum * 2_f64.powi(k as i32).into()
    }

    pub fn ln(self) -> Self {
        let mut guess = Self::from(self.high.ln());
        for _ in 0..2 {
            guess = guess + self * (-guess).exp() - Self::ONE;
        }
        guess
    }
}

impl From<f64> for Extended {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Add for Extended {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (sum, error) = two_sum(self.high, other.high);
        let (low, low_error) = two_sum(self.low, other.low);
        let first = quick_two_sum(sum, error + low);
        quick_two_sum(first.high, first.low + low_error)
    }
}

impl Neg for Extended {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Sub for Extended {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

// a·b − product, exactly (Dekker): `mul_add` is slow where the processor has no such instruction enabled.
fn product_error(a: f64, b: f64, product: f64) -> f64 {
    let split = |v: f64| {
        let scaled = 134_217_729.0 * v;
        let high = scaled - (scaled - v);
        (high, v - high)
    };
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    ((ah * bh - product) + ah * bl + al * bh) + al * bl
}

impl Mul for Extended {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = self.high * other.high;
        let error = product_error(self.high, other.high, product);
        quick_two_sum(product, error + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Extended {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * first.into();
        let second = rest.high / other.high;
        let rest = rest - other * second.into();
        let third = rest.high / other.high;
        Self::from(first) + second.into() + third.into()
    }
}

#[test]
fn extended_numbers_have_thirty_digits() {
    let close = |a: Extended, b: Extended| ((a - b) / b).value().abs() < 1e-29;
    let (two, third) = (Extended::from(2.0), Extended::ONE / 3.0.into());
    assert!(close(two.sqrt() * two.sqrt(), two));
    assert!(close(third * 3.0.into(), Extended::ONE));
    assert!(close(two.ln(), Extended::LN_2));
    for x in [-600.0, -3.7, -1e-9, 0.3, 5.0] {
        let x = Extended::from(x) * third;
        assert!((x.exp().value() / x.value().exp() - 1.0).abs() < 1e-13);
        assert!(close(x.exp() * (-x).exp(), Extended::ONE), "{x:?}");
    }
}
