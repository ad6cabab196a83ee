package grow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestAPlanTakesWhatTheSiteHasTodayForItsOwn: what was applied after the installation is no
// difference, and what was not is refused, with what carries it to the hosts. What the plan writes
// stays that of the installation.
func TestAPlanTakesWhatTheSiteHasTodayForItsOwn(t *testing.T) {
	have := living(t, sitetest.TwoDual)
	installed := have.Config
	installed.SSHKey = "ssh-ed25519 OLD"
	applied := *installed
	applied.SSHKey, applied.Proxy, applied.AdditionalTrustBundle = "ssh-ed25519 NEW", &config.Proxy{HTTPProxy: "http://u:hush@192.0.2.9:3128"}, "a bundle"
	for sentence, c := range map[string]struct {
		now  *config.InstallConfig
		file func(*config.InstallConfig)
		path []string
	}{
		"as at the installation":              {installed, func(*config.InstallConfig) {}, nil},
		"what was applied":                    {&applied, func(f *config.InstallConfig) { keep(f, &applied) }, nil},
		"a key that nobody applied":           {installed, func(f *config.InstallConfig) { f.SSHKey = "ssh-ed25519 NEW" }, []string{"sshKey"}},
		"the installation's, out of a drawer": {&applied, func(*config.InstallConfig) {}, []string{"additionalTrustBundle", "proxy.httpProxy", "sshKey"}},
	} {
		file := edited(t, strings.Replace(sitetest.TwoDual, fencing(), "controlPlane: {replicas: 3}\n", 1))
		file.SSHKey = installed.SSHKey
		c.file(file)
		out, err := grow.Living(installed, c.now, file)
		if len(c.path) > 0 {
			var refused *config.RefusedError
			if !errors.As(err, &refused) || len(refused.Differences) != len(c.path) || !strings.Contains(err.Error(), "holdfast config apply --install-config") && file.SSHKey != installed.SSHKey || strings.Contains(err.Error(), "hush") {
				t.Fatalf("%s: %v", sentence, err)
			}
			for i, d := range refused.Differences {
				if d.Path != c.path[i] {
					t.Errorf("%s: %s, want %s", sentence, d.Path, c.path[i])
				}
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		want, err := grow.Three(have, out)
		if err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		if want.Config.SSHKey != installed.SSHKey || want.Config.Proxy != installed.Proxy || want.Config.ControlPlaneReplicas() != 3 {
			t.Errorf("%s: the plan writes %+v", sentence, want.Config)
		}
	}
}

func keep(f, from *config.InstallConfig) {
	f.SSHKey, f.Proxy, f.AdditionalTrustBundle = from.SSHKey, from.Proxy, from.AdditionalTrustBundle
}
