//! A sample as text, for a terminal of any width or for none.

use super::item::{JobItem, RankItem, Sample};

/// By what the ranks of a job are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Order {
    /// Their numbers.
    Rank,
    /// What they send, most first.
    Out,
    /// What they receive, most first.
    In,
    /// How long they have waited, longest first.
    Wait,
}

/// What is written on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paper {
    /// Columns, if they are limited.
    pub columns: Option<usize>,
    /// Lines, if they are.
    pub lines: Option<usize>,
    /// Whether emphasis is understood, and wanted.
    pub colour: bool,
    /// Whether keys are heard.
    pub keys: bool,
}

impl Paper {
    /// No terminal.
    pub fn plain() -> Paper {
        Paper { columns: None, lines: None, colour: false, keys: false }
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }

    /// What of a line has room. What others have written moves no cursor.
    fn cut(&self, text: &str) -> String {
        let shown = text.chars().map(|c| if c.is_control() { '?' } else { c });
        shown.take(self.columns.unwrap_or(usize::MAX)).collect()
    }
}

/// The sample as text; each line ends with one.
pub fn page(sample: &Sample, order: Order, paper: &Paper) -> String {
    let mut lines: Vec<String> = Vec::new();
    for job in &sample.jobs {
        lines.push(paper.bold(&paper.cut(&title(job))));
        lines.extend(odd(job).filter(|_| !is_wide(paper)).map(|line| paper.cut(&line)));
        lines.push(paper.cut(&head(paper)));
        let mut ranks: Vec<&RankItem> = job.ranks.iter().collect();
        sort(&mut ranks, order);
        lines.extend(ranks.iter().map(|rank| paper.cut(row(rank, paper).trim_end())));
        lines.extend(links(job).iter().map(|line| paper.cut(line)));
        lines.push(String::new());
    }
    if sample.jobs.is_empty() {
        let whose = if weft_sys::unix::my_uid() == 0 { "" } else { " of yours" };
        lines.push(paper.cut(&format!("no job{whose} runs here on Weft")));
    }
    let mut notes: Vec<String> = sample.notes.iter().map(|note| paper.cut(note)).collect();
    if let Some(most) = paper.lines {
        // The keys stay in sight, and what is told now and not again, unless that is very much.
        let most = most.saturating_sub(usize::from(paper.keys)).max(2);
        let for_jobs = most.saturating_sub(notes.len()).max(most.div_ceil(2));
        shorten(&mut lines, for_jobs, paper);
        shorten(&mut notes, most - lines.len(), paper);
    }
    lines.append(&mut notes);
    if paper.keys {
        lines.push(paper.cut("q ends; sorted by: r rank, o out, i in, w wait"));
    }
    lines.join("\n") + "\n"
}

/// Of what does not fit, the last line tells.
fn shorten(lines: &mut Vec<String>, most: usize, paper: &Paper) {
    if lines.len() > most {
        let hidden = lines.len() + 1 - most;
        lines.truncate(most.saturating_sub(1));
        lines.push(paper.cut(&format!("... {hidden} lines more")));
    }
}

fn title(job: &JobItem) -> String {
    let program = job.ranks.first().map_or("", |rank| rank.program.as_str());
    let seen = job.ranks.len();
    let ranks = match job.size {
        Some(size) if size as usize != seen => format!("{seen} of {size} ranks"),
        _ => format!("{seen} ranks"),
    };
    format!("job {}: {ranks} of {program}", job.job)
}

/// Whether there is room for all columns.
fn is_wide(paper: &Paper) -> bool {
    paper.columns.is_none_or(|columns| columns >= 100)
}

/// What has no columns where there is little room, of all ranks together; `None`: there is nothing.
fn odd(job: &JobItem) -> Option<String> {
    let all = || job.ranks.iter().filter_map(|rank| rank.rates);
    let parts = [
        (all().map(|r| r.retransmits).sum::<f64>(), "again/s"),
        (all().map(|r| r.holds).sum(), "holds/s"),
        (all().map(|r| r.relayed).sum(), "relayed/s"),
    ];
    let text = |(rate, what): (f64, &str)| match rate {
        rate if rate < 1.0 => format!("<1 {what}"),
        rate => format!("{} {what}", short(rate)),
    };
    let parts: Vec<_> = parts.into_iter().filter(|(rate, _)| *rate > 0.0).map(text).collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join(", ")))
}

fn head(paper: &Paper) -> String {
    let narrow = "rank  msg/s out  msg/s in   B/s out    B/s in  does";
    match is_wide(paper) {
        true => format!(
            "rank      pid  host        {}  again/s  holds/s  relay/s  does",
            &narrow[6..narrow.len() - 6]
        ),
        false => narrow.to_string(),
    }
}

fn row(rank: &RankItem, paper: &Paper) -> String {
    let number = rank.rank.map_or("?".to_string(), |rank| rank.to_string());
    let r = rank.rates.unwrap_or_default();
    let flow = format!(
        "{:>9}  {:>8}  {:>8}  {:>8}",
        short(r.messages_out),
        short(r.messages_in),
        short(r.bytes_out),
        short(r.bytes_in)
    );
    let does = does(rank);
    if !is_wide(paper) {
        return format!("{number:>4}  {flow}  {does}");
    }
    let host: String = rank.host.chars().take(10).collect();
    let odd =
        format!("{:>7}  {:>7}  {:>7}", short(r.retransmits), short(r.holds), short(r.relayed));
    format!("{number:>4}  {:>7}  {host:<10}  {flow}  {odd}  {does}", rank.pid)
}

fn does(rank: &RankItem) -> String {
    let waits = ["waits", "sleeps"].contains(&rank.doing.as_str());
    let how_long = if waits { format!(" {}", duration(rank.for_s)) } else { String::new() };
    let for_whom = rank.waits_for.as_ref().map(|who| format!(" for {who}")).unwrap_or_default();
    match rank.doing.as_str() {
        "computes" => "computes".to_string(),
        "exchanges" => match &rank.waits_for {
            Some(who) => format!("exchanges, {who} next"),
            None => "exchanges".to_string(),
        },
        "sleeps" => format!("waits{how_long}{for_whom}, asleep"),
        other => format!("{other}{how_long}{for_whom}"),
    }
}

/// The links of a job's ranks: those of one name on one host together.
fn links(job: &JobItem) -> Vec<String> {
    let mut all: std::collections::BTreeMap<(&str, &str), [f64; 4]> = Default::default();
    for rank in &job.ranks {
        for link in &rank.links {
            let sums = all.entry((&rank.host, &link.name)).or_default();
            sums[0] += link.bytes_out.unwrap_or(0.0);
            sums[1] += link.bytes_in.unwrap_or(0.0);
            sums[2] += link.refused as f64;
            sums[3] += link.dropped as f64;
        }
    }
    let line = |((host, name), [out, into, refused, dropped]): (_, [f64; 4])| {
        let mut text = format!("  {host} {name}: {} B/s out, {} B/s in", short(out), short(into));
        if refused + dropped > 0.0 {
            text += &format!(", {} refused, {} dropped", short(refused), short(dropped));
        }
        text
    };
    all.into_iter().map(line).collect()
}

fn sort(ranks: &mut [&RankItem], order: Order) {
    let waited = |rank: &RankItem| {
        let waits = ["waits", "sleeps"].contains(&rank.doing.as_str());
        if waits { rank.for_s } else { 0.0 }
    };
    let key = |rank: &RankItem| match order {
        Order::Rank => 0.0,
        Order::Out => rank.rates.map_or(0.0, |r| r.bytes_out),
        Order::In => rank.rates.map_or(0.0, |r| r.bytes_in),
        Order::Wait => waited(rank),
    };
    ranks.sort_by(|a, b| key(b).total_cmp(&key(a)));
}

/// A number in at most six characters.
pub fn short(number: f64) -> String {
    let mut number = number;
    for unit in ["", "k", "M", "G", "T"] {
        if number < 999.5 {
            let digits = if unit.is_empty() || number >= 99.95 { 0 } else { 1 };
            return format!("{number:.digits$}{unit}");
        }
        number /= 1000.0;
    }
    format!("{number:.0}P")
}

fn duration(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::{LinkItem, RateItem};
    use super::*;

    fn sample() -> Sample {
        let rank = |n: u32| RankItem {
            rank: Some(n),
            host: "node-with-a-long-name".into(),
            pid: 1000 + n,
            program: "solver --with many words --and numbers 1 2 3 4 5 6 7 8 9".into(),
            doing: if n == 0 { "exchanges" } else { "waits" }.into(),
            for_s: f64::from(n),
            waits_for: Some("rank 0".into()),
            rates: Some(RateItem { bytes_out: f64::from(n) * 1e9, ..RateItem::default() }),
            links: vec![LinkItem { name: "tso:eth1".into(), refused: 3, ..LinkItem::default() }],
            ..RankItem::default()
        };
        let ranks = (0..3).map(rank).collect();
        let job = JobItem { job: "0000002a".into(), size: Some(4), ranks };
        Sample { unix_ms: 0, jobs: vec![job], notes: vec!["job 7 has ended".into()] }
    }

    #[test]
    fn nothing_is_wider_or_longer_than_the_terminal() {
        for columns in [20, 60, 80, 100, 200] {
            let paper = Paper { columns: Some(columns), lines: Some(6), colour: false, keys: true };
            let text = page(&sample(), Order::Rank, &paper);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            assert!(text.lines().count() <= 6 && text.contains("lines more"), "{text}");
        }
        let narrow = Paper { columns: Some(60), ..Paper::plain() };
        let text = page(&sample(), Order::Rank, &narrow);
        assert!(text.contains("waits 1.0 s"), "{text}");
        // What is told once stays in sight, but does not take the place of all else.
        let mut sample = sample();
        for (notes, shown) in [(1, 1), (50, 2)] {
            sample.notes = vec!["job 7 has ended".into(); notes];
            let paper = Paper { columns: Some(60), lines: Some(6), colour: false, keys: true };
            let text = page(&sample, Order::Rank, &paper);
            assert_eq!(text.lines().count(), 6, "{text}");
            assert_eq!(text.matches("has ended").count() + usize::from(notes > 1), shown, "{text}");
            assert!(text.starts_with("job 0000002a") && text.contains("lines more"), "{text}");
        }
    }

    #[test]
    fn what_has_no_column_on_a_narrow_terminal_has_a_line_unless_it_is_nothing() {
        let mut sample = sample();
        let narrow = Paper { columns: Some(60), ..Paper::plain() };
        assert!(!page(&sample, Order::Rank, &narrow).contains("/s,"));
        let ranks = &mut sample.jobs[0].ranks;
        ranks[0].rates.as_mut().unwrap().retransmits = 2500.0;
        ranks[1].rates.as_mut().unwrap().relayed = 0.4;
        ranks[2].rates.as_mut().unwrap().retransmits = 500.0;
        let text = page(&sample, Order::Rank, &narrow);
        assert_eq!(text.lines().nth(1), Some("  3.0k again/s, <1 relayed/s"), "{text}");
        let wide = page(&sample, Order::Rank, &Paper::plain());
        assert!(!wide.contains("relayed/s") && wide.contains("2.5k"), "{wide}");
    }

    #[test]
    fn without_colour_there_is_no_escape_and_with_it_there_is() {
        let plain = page(&sample(), Order::Rank, &Paper::plain());
        assert!(!plain.contains('\x1b'));
        assert!(
            plain.contains("3 of 4 ranks") && plain.contains("waits 2.0 s for rank 0"),
            "{plain}"
        );
        assert!(plain.contains("tso:eth1") && plain.contains("9 refused"), "{plain}");
        let paper = Paper { colour: true, ..Paper::plain() };
        assert!(page(&sample(), Order::Rank, &paper).contains("\x1b[1m"));
    }

    #[test]
    fn ranks_are_ordered_as_is_wanted() {
        let paper = Paper { columns: Some(60), ..Paper::plain() };
        let first = |order| page(&sample(), order, &paper).lines().nth(2).unwrap()[..4].to_string();
        assert_eq!((first(Order::Rank), first(Order::Out)), ("   0".into(), "   2".into()));
        assert_eq!(first(Order::Wait), "   2");
        let mut sample = sample();
        sample.jobs[0].ranks[1].rates.as_mut().unwrap().bytes_in = 1.0;
        let text = page(&sample, Order::In, &paper);
        assert_eq!(text.lines().nth(2).map(|line| &line[..4]), Some("   1"), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 7.4, 999.4, 1000.0, 12_345.0, 123_456.0, 999_999.0, 2.5e9].map(short);
        assert_eq!(all, ["0", "7", "999", "1.0k", "12.3k", "123k", "1.0M", "2.5G"]);
    }
}
