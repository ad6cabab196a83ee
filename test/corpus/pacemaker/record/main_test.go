package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACaseIsTakenFromTheHostsThatAnswer(t *testing.T) {
	dir := t.TempDir()
	state, err := filepath.Abs("../cases/healthy/cp-1")
	if err != nil {
		t.Fatal(err)
	}
	// This is a lab whose second host is off.
	program := filepath.Join(dir, "holdfast")
	script := "#!/bin/sh\n[ \"$1 $2 $3 $4\" = 'lab exec --name site' ] && [ \"$5\" = cp-1 ] || exit 1\n" +
		"case \"$7\" in crm_mon) cat " + state + "/crm_mon.xml;; cat) cat " + state + "/corosync.conf;; *) exit 7;; esac\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--lab", "site", "--name", "a-case", "--holdfast", program, "--folder", dir}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "cp-2 is left out") || !strings.Contains(got, "1 views in") {
		t.Error(got)
	}
	found, err := filepath.Glob(filepath.Join(dir, "a-case", "*", "*"))
	if err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
	if err := run(t.Context(), &out, []string{"--name", "../x"}); err == nil {
		t.Error("a name that leaves the folder")
	}
}
