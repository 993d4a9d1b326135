//! Seconds since 1970 as a date.

/// `2026-11-29 16:05:10 UTC`.
pub fn utc(unix_s: u64) -> String {
    let (day, second) = (unix_s / 86_400, unix_s % 86_400);
    let Some((year, month, day)) = date(day) else { return "not known".into() };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The date of a day since 1970-01-01. `None` from the year 10000 on: that is no date of a run.
fn date(mut day: u64) -> Option<(u64, u64, u64)> {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
        if year == 10_000 {
            return None;
        }
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    Some((year, month, day + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (unix_s, said) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_800_000_000, "2027-01-15 08:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (u64::MAX, "not known"),
        ] {
            assert_eq!(utc(unix_s), said);
        }
    }
}
