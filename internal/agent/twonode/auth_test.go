package twonode

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// whole returns what a host that has entered the cluster lacks.
func whole(s *site) string {
	info, err := os.Stat(s.path(CorosyncKey))
	switch {
	case s.text(corosyncConf) != fixture(s.t, "corosync.conf"):
		return "corosync.conf: " + s.text(corosyncConf)
	case err != nil || info.Mode().Perm() != 0o400:
		return "the key is not there, or others can read it"
	case s.text(CorosyncKey) != string(twonode.CorosyncKey(input())):
		return "the key is another one than the peer makes"
	case !s.running:
		return "Corosync does not run"
	case s.text(workConf) != "":
		return "a file is left behind"
	}
	return ""
}

func TestAHostEntersTheClusterByItself(t *testing.T) {
	s := entered(t)
	if lacks := whole(s); lacks != "" {
		t.Error(lacks)
	}
	text := strings.Join(s.runs, "\n")
	if strings.Contains(text, "host auth") || strings.Contains(text, "--all") || strings.Contains(text, "cp-2 --") {
		t.Errorf("it spoke to the peer:\n%s", text)
	}
	if s.runs[0] != "systemctl disable --now --quiet pcsd.service" {
		t.Errorf("first of all pcsd ends, and not %s", s.runs[0])
	}
	if strings.Contains(s.out.String()+text, token) || strings.Contains(s.out.String(), s.text(CorosyncKey)) {
		t.Errorf("a secret was shown:\n%s", &s.out)
	}
	if err := s.do(twonode.Auth); err != nil || s.ran("pcs") || s.ran("corosync-cfgtool") {
		t.Errorf("the second run: %v, ran %v", err, s.runs)
	}
}

func TestBothHostsMakeTheSameKeyAndNoOtherClusterDoes(t *testing.T) {
	a, b := input(), input()
	b.Self, b.Nodes[0], b.Nodes[1] = "cp-2", b.Nodes[1], b.Nodes[0]
	if len(twonode.CorosyncKey(a)) != 256 || !bytes.Equal(twonode.CorosyncKey(a), twonode.CorosyncKey(b)) {
		t.Error("the keys differ, or are too short")
	}
	for name, change := range map[string]func(*twonode.Input){
		"another secret": func(in *twonode.Input) { in.Token += "x" }, "another cluster": func(in *twonode.Input) { in.Cluster = "other" },
	} {
		c := input()
		change(&c)
		if bytes.Equal(twonode.CorosyncKey(a), twonode.CorosyncKey(c)) {
			t.Errorf("%s has the same key", name)
		}
	}
}

func TestAnEntryThatIsCutOffAnywhereIsFinishedByTheNext(t *testing.T) {
	runs := entered(t).runs
	if len(runs) < 6 {
		t.Fatalf("ran %v", runs)
	}
	cutOff(t, twonode.Auth, newSite, runs, whole)
}

// A kill between two files loses the file that is written last.
func TestAHostHasTheKeyBeforeItIsInTheCluster(t *testing.T) {
	s := newSite(t)
	s.programs["pcs cluster setup"] = func([]string) (string, error) {
		if s.text(CorosyncKey) == "" || s.text(corosyncConf) != "" {
			t.Error("corosync.conf comes first: a boot would start Corosync without its key")
		}
		return "", errKilled
	}
	if err := s.do(twonode.Auth); err == nil || s.ran("systemctl start") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

// Hosts that entered by an earlier release have a key that pcs made, and a pcsd
// that accepts the secret.
func TestAHostOfAnEarlierReleaseKeepsItsKeyAndLosesPCSD(t *testing.T) {
	s := newSite(t)
	s.running = true
	s.put(corosyncConf, fixture(t, "corosync.conf"))
	s.put(CorosyncKey, "of pcs")
	s.put(usersFile, `[{"username":"hacluster","token":"`+encoded(token)+`","creation_date":"x"},{"username":"hacluster","token":"bWluZQ=="}]`)
	if err := s.do(twonode.Auth); err != nil {
		t.Fatal(err)
	}
	if s.text(CorosyncKey) != "of pcs" || s.ran("pcs") || s.ran("corosync-cfgtool") {
		t.Errorf("the cluster was changed: ran %v", s.runs)
	}
	if text := s.text(usersFile); strings.Contains(text, encoded(token)) || !strings.Contains(text, "bWluZQ==") {
		t.Errorf("pcsd would still take the secret, or a person's own is gone: %s", text)
	}
	info, err := os.Stat(filepath.Join(s.Root, usersFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

func TestWhatIsLostOrSomebodysIsNotMadeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*site)
		words string
	}{
		"the key is gone":                      {func(s *site) { s.put(corosyncConf, fixture(t, "corosync.conf")); s.running = true }, "/etc/corosync/authkey is missing: copy the missing file from the other host"},
		"the file is gone while Corosync runs": {func(s *site) { s.running = true }, "corosync.service, pacemaker.service runs, but /etc/corosync/corosync.conf is missing"},
		"hosts in a cluster without a name": {func(s *site) {
			s.put(corosyncConf, "totem {\n}\nnodelist {\n node {\n ring0_addr: 10.0.0.1\n name: db-1\n }\n}\n")
		}, `in the Corosync cluster "", not in "pcm"`},
		"packets that nobody encrypts": {func(s *site) {
			s.put(CorosyncKey, "of pcs")
			s.put(corosyncConf, strings.Replace(fixture(t, "corosync.conf"), "crypto_cipher: aes256", "crypto_cipher: none", 1))
		}, "corosync.conf has no crypto_cipher: anyone on the hosts' network can forge a membership"},
	} {
		s := newSite(t)
		c.begin(s)
		before := s.text(corosyncConf) + s.text(CorosyncKey)
		err := s.do(twonode.Auth)
		if err == nil || !strings.Contains(err.Error(), c.words) || s.ran("pcs") || s.text(corosyncConf)+s.text(CorosyncKey) != before {
			t.Errorf("%s: %v, ran %v", name, err, s.runs)
		}
	}
}

func TestAPcsThatEncryptsNothingPutsNoHostIntoACluster(t *testing.T) {
	s := newSite(t)
	s.programs["pcs cluster setup"] = func(args []string) (string, error) {
		return "", os.WriteFile(args[len(args)-1], []byte(strings.Replace(fixture(t, "corosync.conf"), "    crypto_hash: sha256\n", "", 1)), 0o644)
	}
	if err := s.do(twonode.Auth); err == nil || !strings.Contains(err.Error(), "without crypto_hash; nothing was changed") || s.text(corosyncConf) != "" {
		t.Error(err)
	}
}

func TestThePackagesExampleIsRemoved(t *testing.T) {
	s := newSite(t)
	s.running = true
	s.put(corosyncConf, "totem {\n cluster_name: debian\n crypto_cipher: none\n}\nnodelist {\n node {\n name: node1\n ring0_addr: 127.0.0.1\n }\n}\n")
	if err := s.do(twonode.Auth); err != nil || !s.ran("pcs cluster destroy") || whole(s) != "" {
		t.Errorf("%v %s, ran %v", err, whole(s), s.runs)
	}
}

func TestASettingOfCorosyncIsChangedOnThisHostAlone(t *testing.T) {
	s := entered(t)
	s.put(corosyncConf, strings.Replace(fixture(t, "corosync.conf"), "token: 1500", "token: 30000", 1))
	if err := s.do(twonode.Auth); err != nil || !strings.Contains(s.text(corosyncConf), "token: 1500\n") {
		t.Errorf("%v\n%s", err, s.text(corosyncConf))
	}
	if !s.ran("corosync-cfgtool -R") || strings.Contains(strings.Join(s.runs, "\n"), "--all") || s.text(workConf) != "" {
		t.Errorf("ran %v", s.runs)
	}
}

func TestAnErrorHoldsTheCommandsWordsAndNoSecret(t *testing.T) {
	s := newSite(t)
	s.programs["pcs cluster setup"] = func([]string) (string, error) {
		return "", errors.New("Error: bad token " + token + " (" + encoded(token) + ") beside " + password)
	}
	err := s.do(twonode.Auth)
	if err == nil || !strings.Contains(err.Error(), "auth: run pcs cluster setup") || !strings.Contains(err.Error(), "bad token *** (***) beside ***") {
		t.Error(err)
	}
}
