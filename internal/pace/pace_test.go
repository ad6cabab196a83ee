package pace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTroubleIsToldOnceAMinuteAndWhenItIsOver(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	trouble := Trouble{Log: log, Now: func() time.Time { return now }}
	trouble.Hear(nil)
	for i := range 65 { // one error per second, each with another text
		trouble.Hear(fmt.Errorf("attempt %d", i))
		now = now.Add(time.Second)
	}
	trouble.Hear(context.Canceled)
	trouble.Hear(nil)
	trouble.Hear(nil)
	trouble.Hear(errors.New("again"))
	want := []string{
		`level=WARN msg=fails err="attempt 0"`, `level=WARN msg="still fails" for=1m0s err="attempt 60"`,
		`level=INFO msg="works again" after=1m5s`, `level=WARN msg=fails err=again`, "",
	}
	if diff := cmp.Diff(want, strings.Split(said.String(), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
