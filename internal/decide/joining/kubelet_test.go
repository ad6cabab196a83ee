package joining

import (
	"errors"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostDoesNotJoinWithAKubeletThatIsNewerThanTheSitesLevel(t *testing.T) {
	of := func(release, version string) Kubelet {
		if version == "" {
			return Kubelet{Release: release}
		}
		v, err := gate.ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		return Kubelet{Release: release, Version: state.Known(v)}
	}
	const (
		known   = "the site is being upgraded from Kubernetes 1.35 to 1.36: this host joins once that has ended (holdfast upgrade status)"
		unknown = "the site is being upgraded to another minor version of Kubernetes: this host joins once that has ended (holdfast upgrade status)"
	)
	for what, c := range map[string]struct {
		given, own Kubelet
		want       string // empty if it joins
	}{
		"no upgrade": {of("r1", "1.35.4"), of("r1", "1.35.4"), ""},
		"no upgrade, and the release does not say it":      {of("r1", ""), of("r1", ""), ""},
		"the first host has no release in place yet":       {of("", ""), of("", ""), ""},
		"before the commit of another minor release":       {of("r2", "1.36.0"), of("r1", "1.35.4"), known},
		"the same, and a lower patch":                      {of("r2", "1.36.0"), of("r1", "1.35.9"), known},
		"the same, of another major release":               {of("r2", "2.0.0"), of("r1", "1.35.9"), "the site is being upgraded from Kubernetes 1.35 to 2.0: this host joins once that has ended (holdfast upgrade status)"},
		"the same, and nobody knows what the new one is":   {of("r2", ""), of("r1", "1.35.4"), unknown},
		"the same, and nobody knows what the old one was":  {of("r2", "1.36.0"), of("r1", ""), unknown},
		"the same, and nobody knows which release runs":    {of("", ""), of("r1", "1.35.4"), unknown},
		"the site has risen":                               {of("r2", "1.36.0"), of("r2", "1.36.0"), ""},
		"the host is being switched, of one minor release": {of("r2", "1.35.5"), of("r1", "1.35.4"), ""},
		"the host is on its way back":                      {of("r1", "1.35.4"), of("r2", "1.36.0"), ""},
	} {
		err := Wait(c.given, c.own)
		later, waits := errors.AsType[Later](err)
		if string(later) != c.want || waits != (err != nil) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
