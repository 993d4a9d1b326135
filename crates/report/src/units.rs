//! Figures as people read them: three digits and a unit.

/// A number with three digits at most, and no zeros behind the point that say nothing.
fn digits(v: f64) -> String {
    let places = match v.abs() {
        a if a >= 99.95 => 0,
        a if a >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{v:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// With the greatest of the units that it reaches; `steps` ascend.
fn scaled(v: f64, steps: &[(f64, &str)]) -> String {
    if !v.is_finite() {
        return "-".into();
    }
    // The sum of no numbers is -0.
    let v = v + 0.0;
    // 999.6 would be shown as 1000 of the lower unit.
    let reached = |(step, _): &&(f64, &str)| v >= step * 0.9995;
    let (step, unit) = steps.iter().rev().find(reached).or(steps.first()).unwrap_or(&(1.0, ""));
    format!("{} {unit}", digits(v / step)).trim_end().to_string()
}

/// A time in ns: `4.5 ms`, `600 s`.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"), (3.6e12, "h")])
}

/// A count of bytes in powers of 1000, as rates have them: `34 GB`.
pub fn bytes(v: f64) -> String {
    scaled(v, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
}

/// A count: `12`, `3.1 k`, `1.23 M`.
pub fn count(v: f64) -> String {
    scaled(v, &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")])
}

/// The size of a message, in powers of 1024 as programs choose them: `64`, `4K`, `1M`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A share of a whole, from 0 on: `41 %`, `0.3 %`, `< 0.1 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => "-".into(),
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.1 => "< 0.1 %".into(),
        // Not 100 where something is missing.
        p if p < 9.95 => format!("{p:.1} %"),
        p if p < 100.0 => format!("{:.0} %", p.min(99.4)),
        p => format!("{p:.0} %"),
    }
}

/// What part `part` is of `whole`; 0 where there is no whole.
pub fn share(part: f64, whole: f64) -> f64 {
    let share = part / whole;
    if share.is_finite() && whole > 0.0 { share.max(0.0) } else { 0.0 }
}

/// `1 rank`, `2 ranks`.
pub fn many(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Numbers of ranks, ascending, in words: `rank 3`, `ranks 3 and 7`, `ranks 0-15`.
pub fn ranks(numbers: &[u32]) -> String {
    /// More runs than this are counted and not named.
    const NAMED_MOST: usize = 4;
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first}-{last}")],
    };
    let named: Vec<String> = runs.iter().take(NAMED_MOST).flat_map(text).collect();
    let rest: usize =
        runs.iter().skip(NAMED_MOST).map(|(first, last)| (last - first) as usize + 1).sum();
    let word = if numbers.len() == 1 { "rank" } else { "ranks" };
    match (named.split_last(), rest) {
        (None, _) => "no rank".into(),
        (Some(_), 1..) => format!("{word} {} and {rest} more", named.join(", ")),
        (Some((last, [])), 0) => format!("{word} {last}"),
        (Some((last, others)), 0) => format!("{word} {} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.6, "1 us"),
            (4.5e6, "4.5 ms"),
            (6e11, "600 s"),
            (7.2e12, "2 h"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!([bytes(0.0), bytes(34.04e9), bytes(999.0)], ["0 B", "34 GB", "999 B"]);
        assert_eq!([count(12.0), count(3120.0), count(1.234e6)], ["12", "3.12 k", "1.23 M"]);
        assert_eq!(
            [0, 64, 4096, 1 << 20, 3 << 30, 1500].map(size),
            ["0", "64", "4K", "1M", "3G", "1500"]
        );
    }

    #[test]
    fn shares_are_honest_at_their_ends() {
        let all = [0.0, 0.0004, 0.003, 0.41, 0.9999, 1.0, 1.5, f64::NAN];
        let said = ["0 %", "< 0.1 %", "0.3 %", "41 %", "99 %", "100 %", "150 %", "-"];
        assert_eq!(all.map(percent), said);
        for (part, whole) in [(1.0, 0.0), (0.0, 0.0), (f64::NAN, 1.0), (-1.0, 2.0)] {
            assert_eq!(share(part, whole), 0.0);
        }
        assert_eq!(share(1.0, 4.0), 0.25);
    }

    #[test]
    fn ranks_are_named_in_few_words() {
        assert_eq!(ranks(&[]), "no rank");
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[3, 4]), "ranks 3 and 4");
        assert_eq!(ranks(&[0, 1, 2, 3, 9]), "ranks 0-3 and 9");
        assert_eq!(ranks(&[1, 3, 5, 7, 9, 11, 12]), "ranks 1, 3, 5, 7 and 3 more");
        assert_eq!(ranks(&[u32::MAX]), "rank 4294967295");
    }
}
