package twonode

import (
	"errors"
	"strings"
	"testing"
)

// lost is a host of two with copies, whose Corosync forgot its peer.
func lost(t *testing.T, running bool) *stand {
	s := newStand(t)
	s.put(keptCorosync, fixture(t, "corosync.conf"))
	s.put(keptKey, "the key")
	s.programs["systemctl is-active"] = func([]string) (string, error) {
		if running {
			return "", nil
		}
		return "", errors.New("inactive")
	}
	return s
}

func TestAPersonHasTheListOfHostsPutBackAsItWas(t *testing.T) {
	for _, running := range []bool{true, false} {
		s := lost(t, running)
		if running {
			s.put(corosyncConf, "nodelist {\n}\n")
		}
		if err := s.PutBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.text(corosyncConf) != fixture(t, "corosync.conf") || s.text(CorosyncKey) != "the key" {
			t.Errorf("%q", s.text(corosyncConf))
		}
		all := strings.Join(s.runs, "\n")
		if strings.Contains(all, "corosync-cfgtool -R") != running || !strings.Contains(all, "systemctl enable --quiet corosync.service pacemaker.service") || !strings.Contains(all, "systemctl start corosync.service pacemaker.service") {
			t.Errorf("running %v: %s", running, all)
		}
		if strings.Contains(all, "pcs") {
			t.Errorf("pcs would speak to the other host, or destroy: %s", all)
		}
		s.runs = nil
		if err := s.PutBack(t.Context()); err != nil || strings.Contains(strings.Join(s.runs, "\n"), "-R") {
			t.Errorf("again: %v, %v", err, s.runs)
		}
	}
}

func TestWithoutACopyOfTwoHostsNothingIsPutBack(t *testing.T) {
	for name, change := range map[string]func(*stand){
		"no copy":     func(s *stand) { s.put(keptCorosync, "") },
		"no key":      func(s *stand) { s.put(keptKey, "") },
		"of one host": func(s *stand) { s.put(keptCorosync, "quorum {\n  two_node: 1\n}\n") },
		"not encrypted": func(s *stand) {
			s.put(keptCorosync, strings.Replace(fixture(t, "corosync.conf"), "crypto_cipher", "x", 1))
		},
		"garbage": func(s *stand) { s.put(keptCorosync, "}") },
	} {
		s := lost(t, true)
		change(s)
		if err := s.PutBack(t.Context()); err == nil || len(s.runs) > 0 {
			t.Errorf("%s: %v, ran %v", name, err, s.runs)
		}
	}
}
