//! The terminal: raw while `weft top` draws on it, and as it was afterwards, however that ends.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::{cursor, execute, terminal};

use super::show::{Order, Paper};
use crate::CliError;

/// What keys ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// To end.
    Quit,
    /// Another order.
    Order(Order),
}

/// The terminal, taken over.
pub struct Screen {
    /// A terminal that cannot tell gets this size.
    size: (u16, u16),
    hears: bool,
}

impl Screen {
    /// Takes it over.
    ///
    /// # Errors
    /// When it does not let itself be set.
    pub fn open() -> Result<Screen, CliError> {
        // Without a terminal as input there are no keys: a signal ends it then.
        let hears = io::IsTerminal::is_terminal(&io::stdin());
        if hears {
            terminal::enable_raw_mode().map_err(CliError::io("setting the terminal"))?;
        }
        let screen = Screen { size: (80, 24), hears };
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
            .map_err(CliError::io("drawing"))?;
        Ok(screen)
    }

    /// What there is to write on. `NO_COLOR` and terminals that know nothing are heeded.
    pub fn paper(&self) -> Paper {
        let (columns, lines) = match terminal::size() {
            Ok((columns, lines)) if columns > 0 && lines > 0 => (columns, lines),
            _ => self.size,
        };
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Paper {
            columns: Some(usize::from(columns)),
            lines: Some(usize::from(lines)),
            colour: !unwanted && !dumb,
            keys: self.hears,
        }
    }

    /// Draws all of it anew.
    ///
    /// # Errors
    /// When the terminal has gone away.
    pub fn draw(&mut self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        let all = terminal::Clear(terminal::ClearType::All);
        execute!(out, cursor::MoveTo(0, 0), all).map_err(CliError::io("drawing"))?;
        // The last line has no end: that would move the first one out of sight.
        let lines = text.trim_end_matches('\n').replace('\n', "\r\n");
        out.write_all(lines.as_bytes()).and_then(|()| out.flush()).map_err(CliError::io("drawing"))
    }

    /// What is pressed within a time.
    ///
    /// # Errors
    /// When the terminal has gone away.
    pub fn key(&mut self, limit: Duration) -> Result<Option<Key>, CliError> {
        if !self.hears {
            std::thread::sleep(limit);
            return Ok(None);
        }
        if !event::poll(limit).map_err(CliError::io("listening to the terminal"))? {
            return Ok(None);
        }
        match event::read().map_err(CliError::io("listening to the terminal"))? {
            Event::Key(KeyEvent { code, modifiers, .. }) => Ok(meaning(code, modifiers)),
            _ => Ok(None),
        }
    }
}

fn meaning(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    match code {
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('r') => Some(Key::Order(Order::Rank)),
        KeyCode::Char('o') => Some(Key::Order(Order::Out)),
        KeyCode::Char('i') => Some(Key::Order(Order::In)),
        KeyCode::Char('w') => Some(Key::Order(Order::Wait)),
        _ => None,
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        if self.hears {
            let _ = terminal::disable_raw_mode();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_means_what_the_last_line_says() {
        let pressed = |key| meaning(KeyCode::Char(key), KeyModifiers::NONE);
        let order = |by| Some(Key::Order(by));
        assert_eq!([pressed('r'), pressed('o')], [order(Order::Rank), order(Order::Out)]);
        assert_eq!([pressed('i'), pressed('w')], [order(Order::In), order(Order::Wait)]);
        assert_eq!([pressed('q'), pressed('c'), pressed('d')], [Some(Key::Quit), None, None]);
        assert_eq!(meaning(KeyCode::Esc, KeyModifiers::NONE), Some(Key::Quit));
        for key in ['c', 'd'] {
            assert_eq!(meaning(KeyCode::Char(key), KeyModifiers::CONTROL), Some(Key::Quit));
        }
    }
}
