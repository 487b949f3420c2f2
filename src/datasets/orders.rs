//! Made-up orders of a shop, as company data are: categories of few and of many levels, dates, customers, gaps, amounts that
//! are log-normal, weights; and the orders of the next day, with products and a region that were not there before, and with
//! columns that nobody has announced.

use std::f64::consts::TAU;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::random::{normal, uniform};

/// Orders of the first year.
pub const ORDERS: usize = 20_000;
/// Orders of the next day.
pub const NEXT: usize = 400;
const PRODUCTS: usize = 5_000;
/// Products that only the next day has.
const NEW_PRODUCTS: usize = 60;
const CUSTOMERS: usize = 2_500;
const REGIONS: [(&str, f64); 3] = [("north", 0.0), ("south", 0.25), ("west", -0.2)];
/// The region that only the next day has.
const NEW_REGION: (&str, f64) = ("overseas", 0.4);
/// The share of values that are missing, in columns that have gaps.
const GAPS: f64 = 0.1;
/// Standard deviation of the logarithm of an amount of weight 1.
const NOISE: f64 = 0.3;
/// 2025-01-01, in microseconds since 1970.
const START: i64 = 1_735_689_600_000_000;
const MINUTE: i64 = 60_000_000;
const MINUTES_OF_YEAR: i64 = 365 * 24 * 60;

/// Columns to write, by name.
type OrderColumns = Vec<(&'static str, ArrayRef)>;

/// The first year, and the next day. The same seed gives the same bits.
pub fn columns(seed: u64) -> (OrderColumns, OrderColumns) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let products: Vec<f64> = (0..PRODUCTS + NEW_PRODUCTS).map(|_| 0.5 * normal(&mut rng)).collect();
    let customers: Vec<(f64, f64)> =
        (0..CUSTOMERS).map(|_| (0.1 * normal(&mut rng), 18.0 + 62.0 * uniform(rng.next_u64()))).collect();
    let shop = Shop { products, customers };
    let year: Vec<Order> = (0..ORDERS).map(|_| shop.order(false, &mut rng)).collect();
    let next: Vec<Order> = (0..NEXT).map(|_| shop.order(true, &mut rng)).collect();
    let mut day = table(&next, ORDERS);
    let channels = (0..NEXT).map(|order| if order % 3 == 0 { "phone" } else { "web" });
    day.push(("channel", Arc::new(StringArray::from_iter_values(channels))));
    day.push(("coupon", Arc::new((0..NEXT).map(|order| (order % 7 == 0).then_some(5.0)).collect::<Float64Array>())));
    (table(&year, 0), day)
}

/// What there is to order, and who does.
struct Shop {
    /// What each product adds to the logarithm of an amount.
    products: Vec<f64>,
    /// The same of each customer, and the customer's age.
    customers: Vec<(f64, f64)>,
}

struct Order {
    customer: usize,
    region: &'static str,
    product: usize,
    minute: i64,
    express: bool,
    quantity: i32,
    discount: Option<f64>,
    age: Option<f64>,
    weight: f64,
    amount: f64,
}

impl Shop {
    fn order(&self, next: bool, rng: &mut ChaCha20Rng) -> Order {
        let mut draw = || uniform(rng.next_u64());
        let customer = (draw() * CUSTOMERS as f64) as usize;
        // Some of the next day's orders are of products, and from a region, that are new.
        let product = if next && draw() < 0.05 {
            PRODUCTS + (draw() * NEW_PRODUCTS as f64) as usize
        } else {
            // The square: some products are ordered much more often than others.
            (draw().powi(2) * PRODUCTS as f64) as usize
        };
        let usual = REGIONS[(draw() * REGIONS.len() as f64) as usize];
        let (region, of_region) = if next && draw() < 0.03 { NEW_REGION } else { usual };
        let minute =
            if next { MINUTES_OF_YEAR + (draw() * 1440.0) as i64 } else { (draw() * MINUTES_OF_YEAR as f64) as i64 };
        let (express, quantity) = (draw() < 0.2, 1 + (draw().powi(2) * 20.0) as i32);
        let discount = if draw() < 0.5 { 0.0 } else { (draw() * 6.0).floor() * 0.05 };
        let weight = [1.0, 1.0, 2.0, 4.0][(draw() * 4.0) as usize];
        let (of_customer, age) = self.customers[customer];
        let (season, day) = (TAU * minute as f64 / MINUTES_OF_YEAR as f64, minute / 1440);
        // 2025 began on a Wednesday.
        let weekend = f64::from(u8::from(matches!((day + 2) % 7, 5 | 6)));
        let log = 3.0 + of_region + of_customer + self.products[product] + 0.7 * f64::from(quantity).ln()
            - 0.9 * discount
            + 0.2 * f64::from(u8::from(express))
            + 0.15 * season.sin()
            + 0.1 * weekend
            + 0.006 * (age - 45.0);
        let (gap_of_discount, gap_of_age) = (draw() < GAPS, draw() < GAPS);
        let amount = (NOISE / f64::sqrt(weight)).mul_add(normal(rng), log).exp();
        Order {
            customer,
            region,
            product,
            minute,
            express,
            quantity,
            discount: (!gap_of_discount).then_some(discount),
            age: (!gap_of_age).then_some(age.floor()),
            weight,
            amount,
        }
    }
}

fn table(orders: &[Order], first: usize) -> OrderColumns {
    let ids = first as i64..(first + orders.len()) as i64;
    let names: Vec<String> = orders.iter().map(|order| format!("p{:04}", order.product)).collect();
    let products: DictionaryArray<Int32Type> = names.iter().map(String::as_str).collect();
    let times = orders.iter().map(|order| START + order.minute * MINUTE);
    vec![
        ("order_id", Arc::new(Int64Array::from_iter_values(ids))),
        ("customer", Arc::new(StringArray::from_iter_values(orders.iter().map(|o| format!("c{:04}", o.customer))))),
        ("region", Arc::new(StringArray::from_iter_values(orders.iter().map(|order| order.region)))),
        ("product", Arc::new(products)),
        ("ordered_at", Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))),
        ("express", Arc::new(orders.iter().map(|order| Some(order.express)).collect::<BooleanArray>())),
        ("quantity", Arc::new(Int32Array::from_iter_values(orders.iter().map(|order| order.quantity)))),
        ("discount", Arc::new(orders.iter().map(|order| order.discount).collect::<Float64Array>())),
        ("age", Arc::new(orders.iter().map(|order| order.age).collect::<Float64Array>())),
        ("weight", Arc::new(orders.iter().map(|order| Some(order.weight)).collect::<Float64Array>())),
        ("amount", Arc::new(orders.iter().map(|order| Some(order.amount)).collect::<Float64Array>())),
    ]
}
