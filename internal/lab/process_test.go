package lab

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestACommandWaitsForTheLockOfOneThatWasKilled: a program that such a command had
// just begun to start holds the lock for a moment. A command that works on keeps it.
func TestACommandWaitsForTheLockOfOneThatWasKilled(t *testing.T) {
	dir := t.TempDir()
	release, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(commandPatience/10, release)
	again, err := lockLab(t.Context(), dir, "site")
	if err != nil {
		t.Fatalf("a lock that was held for a moment: %v", err)
	}
	if _, err := lockLab(t.Context(), dir, "site"); err == nil || !strings.Contains(err.Error(), "lab site: another holdfast command works on it") {
		t.Errorf("a lock that stays held: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := lockLab(ended, dir, "site"); err == nil || strings.Contains(err.Error(), "another holdfast command") {
		t.Errorf("a command that was interrupted: %v", err)
	}
	again()
}
