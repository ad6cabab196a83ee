package pacemaker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tool puts a crm_mon of our own before the host's.
func tool(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crm_mon"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestWhatPacemakerSaysIsReadEvenWhereItDoesNotRun(t *testing.T) {
	tool(t, `[ "$*" = "--one-shot --inactive --fence-history=3 --output-as=xml" ] || exit 64
echo '<pacemaker-result><status code="102"/></pacemaker-result>'; echo 'warning: something' >&2; exit 102`)
	out, err := Report(t.Context())
	if err != nil || strings.TrimSpace(string(out)) != `<pacemaker-result><status code="102"/></pacemaker-result>` {
		t.Errorf("%q, %v", out, err)
	}
	tool(t, "echo 'no such option' >&2; exit 64")
	if out, err := Report(t.Context()); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("%q, %v", out, err)
	}
}
