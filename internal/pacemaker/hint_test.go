package pacemaker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestANewValueOfThePeerIsHintedAtAlsoAfterTheLogWasRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pacemaker.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const line = "Nov 20 12:01:12.112 cp-2 pacemaker-attrd [53] (update_attr_on_host) notice: Setting holdfast-etcd[cp-1]: a -> b | from cp-1\n"
	write(line) // before anybody looked
	stop := errors.New("seen enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	hinted := make(chan struct{}, 16)
	ended := make(chan error, 1)
	go func() {
		ended <- hints(ctx, path, []byte("Setting holdfast-etcd[cp-1]:"), func() { hinted <- struct{}{} })
	}()
	await := func(what string) {
		t.Helper()
		// The follower may not be at the end of the file yet: what it reads is
		// written until it has seen it.
		for {
			write(line)
			select {
			case <-hinted:
				return
			case err := <-ended:
				t.Fatalf("%s: %v", what, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	await("a first value")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	await("a value in a new log")
	cancel(stop)
	if err := <-ended; !errors.Is(err, stop) {
		t.Errorf("ended by %v", err)
	}
}

func TestWhatOthersPublishIsNoHint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pacemaker.log")
	f := &follower{path: path}
	t.Cleanup(func() { _ = f.close() })
	for _, c := range []struct {
		text string
		want bool
	}{
		{"Setting holdfast-etcd[cp-2]: a -> b\n", false},
		{"Setting holdfast-etcd-2[cp-1]: a -> b\n", false},
		{"Setting holdfast-etcd[cp-1]: a -> b\n", true},
		{"", false},
	} {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if got := f.says([]byte("Setting holdfast-etcd[cp-1]:")); got != c.want {
			t.Errorf("%q: %v", c.text, got)
		}
	}
}
