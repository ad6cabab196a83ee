package updates_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/updates"
)

const dpkg = `Package: corosync
Status: hold ok installed
Version: 3.1.7-1
Description: x
 Package: pcs

Package: libqb100
Status: install ok installed
Version: 2.0.6-2

Package: libqb100
Status: install ok installed
Architecture: i386
Version: 2.0.6-2

Package: pacemaker
Status: deinstall ok config-files
Version: 2

Package: podman
Status: install ok installed
Version: 4.3.1

Package: pcscd
Status: install ok installed
Version: 1
`

func TestAPackageBelowEtcdIsLooseIfAutomaticUpdatesMayChangeIt(t *testing.T) {
	const unattended = dpkg + "\nPackage: unattended-upgrades\nStatus: install ok installed\nVersion: 2.9\n"
	const on = `APT::Periodic::Unattended-Upgrade "1";`
	const ours = "Unattended-Upgrade::Automatic-Reboot \"false\";\nUnattended-Upgrade::Package-Blacklist {\n  \"^libqb\";\n  \"^podman\";\n  \"(\";\n};\n"
	have := []string{"corosync=3.1.7-1", "libqb100=2.0.6-2", "podman=4.3.1"}
	for what, c := range map[string]struct {
		status, ours string
		settings     []string
		loose        []string
	}{
		"nothing updates by itself":       {dpkg, "", []string{on}, nil},
		"it is there, and off":            {unattended, "", []string{`APT::Periodic::Unattended-Upgrade "0";`, `Unattended-Upgrade::Mail "root";`}, nil},
		"it is on":                        {unattended, "", []string{on}, []string{"libqb100", "podman"}},
		"it is on, in nested form":        {unattended, "", []string{"APT { Periodic {\n Unattended-Upgrade \"7\"; }; };"}, []string{"libqb100", "podman"}},
		"it is on, and off later":         {unattended, "", []string{on, `APT::Periodic::Unattended-Upgrade "0";`}, []string{"libqb100", "podman"}},
		"it is on, and Holdfast names it": {unattended, ours, []string{on}, nil},
		"an earlier release named less":   {unattended, "Unattended-Upgrade::Package-Blacklist { \"^podman\"; };", []string{on}, []string{"libqb100"}},
		"somebody clears the list":        {unattended, ours, []string{on, "#clear Unattended-Upgrade::Package-Blacklist;"}, []string{"libqb100", "podman"}},
		"a worker's file":                 {unattended, `Unattended-Upgrade::Automatic-Reboot "false";`, []string{on}, []string{"libqb100", "podman"}},
	} {
		host := updates.AptHost{Status: []byte(c.status), Ours: []byte(c.ours)}
		for _, s := range c.settings {
			host.Settings = append(host.Settings, []byte(s))
		}
		if diff := cmp.Diff(updates.Stack{Have: have, Loose: c.loose}, host.Stack()); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}

func TestAPackageOfRHELIsLooseIfAutomaticUpdatesMayChangeIt(t *testing.T) {
	const packages = "pacemaker-libs=2.1.7-5.el9\nopenssl=3\ncorosynclib=3.1.8-1.el9\npodman=5.2\n"
	const automatic = packages + "dnf-automatic=4.14\n"
	const applies = "[commands]\nupgrade_type = default\napply_updates = yes\n"
	have := []string{"corosynclib=3.1.8-1.el9", "pacemaker-libs=2.1.7-5.el9", "podman=5.2"}
	all := []string{"corosynclib", "pacemaker-libs", "podman"}
	for what, c := range map[string]struct {
		host  updates.DnfHost
		loose []string
	}{
		"nothing updates by itself":   {updates.DnfHost{Packages: []byte(packages), Automatic: []byte(applies), Installs: true}, nil},
		"it only tells":               {updates.DnfHost{Packages: []byte(automatic), Automatic: []byte("apply_updates = no\n")}, nil},
		"it has no file, and no says": {updates.DnfHost{Packages: []byte(automatic)}, nil},
		"it installs":                 {updates.DnfHost{Packages: []byte(automatic), Automatic: []byte(applies)}, all},
		"its timer installs":          {updates.DnfHost{Packages: []byte(automatic), Installs: true}, all},
		"dnf excludes some": {updates.DnfHost{
			Packages: []byte(automatic), Automatic: []byte(applies), Main: []byte("[main]\nexcludepkgs=corosync*, podman\n"),
		}, []string{"pacemaker-libs"}},
		"a plugin locks some": {updates.DnfHost{
			Packages: []byte(automatic), Automatic: []byte(applies), Locks: []byte("podman-compose-0:1.0-1.*\npacemaker-libs-0:2.1.7-5.el9.*\n# podman-0:5\n"),
		}, []string{"corosynclib", "podman"}},
	} {
		if diff := cmp.Diff(updates.Stack{Have: have, Loose: c.loose}, c.host.Stack()); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}
