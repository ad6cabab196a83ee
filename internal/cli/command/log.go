package command

import (
	"io"
	"log/slog"
)

// JournalLogger returns the log of a daemon that systemd runs: one line per
// message, without a time, because the journal adds one. The text is for people;
// a fact that another part needs is an event (docs/adr/0043-events.md).
func JournalLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}))
}
