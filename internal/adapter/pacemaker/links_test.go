package pacemaker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoLinks is what Corosync 3.1 prints.
func twoLinks(t testing.TB) string {
	t.Helper()
	out, err := os.ReadFile("testdata/cfgtool-two-links.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestALinkWorksIfItReachesEachOtherHostAndIsUnknownIfItSaysSomethingElse(t *testing.T) {
	text := twoLinks(t)
	second := strings.LastIndex(text, "connected")
	with := func(state string) string {
		return text[:second] + strings.Replace(text[second:], "connected", state, 1)
	}
	for what, c := range map[string]struct {
		said  string
		works bool
		fails string
	}{
		"both work":                   {text, true, ""},
		"the second does not":         {with("disconnected"), false, ""},
		"a word that nobody knows":    {with("?"), false, `says "?" of a link`},
		"no word":                     {with(""), false, `says "" of a link`},
		"down beside an unknown word": {strings.Replace(with("?"), "\tconnected", "\tdisconnected", 1), false, ""},
		"down beside no other host":   {"LINK ID 0 udp\n nodeid: 2: disconnected\nLINK ID 1 udp\n", false, ""},
		"no other host":               {"LINK ID 0 udp\n\tstatus:\n\t\tnodeid: 1:\tlocalhost\n", false, "without another host"},
		"the last one ends early":     {text[:strings.LastIndex(text, "\t\tnodeid")], false, "without another host"},
		"the first one ends early":    {"LINK ID 0 udp\nLINK ID 1 udp\n nodeid: 2: connected\n", false, "without another host"},
		"udp, which has no state":     {"Local node ID 1, transport udpu\nLINK ID 0 udp\n\taddr = 10.0.0.1\n\tstatus:\tOK\n", false, "without another host"},
		"nothing":                     {"", false, "names no link"},
		"no daemon":                   {"Could not initialize corosync configuration API error CS_ERR_LIBRARY\n", false, "names no link"},
	} {
		works, err := linksWork(c.said)
		if works != c.works || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %t, %v", what, works, err)
		}
	}
}

// TestCorosyncsWordCountsAlsoIfItsProgramFails: it does where a link is down.
func TestCorosyncsWordCountsAlsoIfItsProgramFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for script, want := range map[string]string{
		"echo 'LINK ID 0 udp'; echo 'nodeid: 2: connected'; exit 0":    "true",
		"echo 'LINK ID 0 udp'; echo 'nodeid: 2: disconnected'; exit 1": "false",
		"echo 'no'; exit 1": "ask Corosync for its links: run corosync-cfgtool -s: exit status 1",
		"echo 'no'; exit 0": "ask Corosync for its links: corosync-cfgtool -s names no link",
	} {
		if err := os.WriteFile(filepath.Join(dir, "corosync-cfgtool"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		works, err := LinksWork(t.Context())
		got := map[bool]string{true: "true", false: "false"}[works]
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// FuzzLinks lets corosync-cfgtool print anything: links never work without one that
// reaches somebody.
func FuzzLinks(f *testing.F) {
	f.Add(twoLinks(f))
	f.Add("LINK ID 0 udp\nnodeid:")
	f.Add("")
	f.Fuzz(func(t *testing.T, said string) {
		works, err := linksWork(said)
		if works && (err != nil || !strings.Contains(said, "connected") || strings.Contains(said, "disconnected\n")) {
			t.Errorf("%q: %t, %v", said, works, err)
		}
	})
}
