//! Bars in cells of tables.

use maud::{Markup, html};

/// Parts of a whole side by side: a class and a share each.
pub fn bar(parts: &[(&str, f64)]) -> Markup {
    let mut left = 0.0;
    let mut rects = Vec::new();
    for (class, share) in parts {
        let width = (100.0 * share).clamp(0.0, 100.0 - left);
        rects.push((*class, left, width));
        left += width;
    }
    html! {
        svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (class, left, width) in rects {
                @if width > 0.0 {
                    rect class=(class) x=(short(left)) width=(short(width)) height="10" {}
                }
            }
        }
    }
}

fn short(v: f64) -> String {
    format!("{v:.1}")
}

/// A table of named things, each with shares of several wholes: a heading, texts and shares a
/// column.
pub fn parts(of: &str, headings: &[&str], rows: &[(String, Vec<(String, f64)>)]) -> Markup {
    html! {
        div class="wide" {
            table {
                thead {
                    tr {
                        th { (of) }
                        @for heading in headings { th colspan="2" { (heading) } }
                    }
                }
                tbody {
                    @for (name, cells) in rows {
                        tr {
                            th { (name) }
                            @for (text, share) in cells {
                                td class="n" { (text) }
                                td class="barred" { (bar(&[("work", *share)])) }
                            }
                        }
                    }
                }
            }
        }
    }
}
