package config

import "testing"

func TestOnlyARegistryNamedByItsAddressMayHaveNoTLS(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for ref, want := range map[string]bool{
		"10.0.0.9:5000/holdfast/release:1.0" + digest: true,
		"192.0.2.9/holdfast/release" + digest:         true,
		"[fd00::9]:5000/holdfast/release" + digest:    true,
		"[2001:db8::9]/holdfast/release" + digest:     true,
		"localhost:5000/holdfast/release" + digest:    true,
		"registry.example.com:5000/holdfast/release":  false,
		"registry.example.com/holdfast" + digest:      false,
		"10.0.0.9.example.com/holdfast" + digest:      false,
		"":                                            false,
	} {
		c := InstallConfig{ReleaseRegistry: ref}
		if got := c.ReleaseByAddress(); got != want {
			t.Errorf("%s: %t, want %t", ref, got, want)
		}
	}
}

func TestARegistryThatMayHaveNoTLSGetsNoAccount(t *testing.T) {
	const secret = `{"auths":{"10.0.0.9:5000":{"auth":"aHVzaDpodXNo"},"mirror.example.com":{"auth":"aHVzaDpodXNo"}}}`
	for ref, want := range map[string]bool{
		"10.0.0.9:5000/holdfast/release@sha256:00": false,
		"mirror.example.com/holdfast/release:1.0":  true,
		"other.example.com/holdfast/release:1.0":   false,
	} {
		c := InstallConfig{ReleaseRegistry: ref, PullSecret: secret}
		if got := c.ReleaseAuth() != ""; got != want {
			t.Errorf("%s: account handed on %t, want %t", ref, got, want)
		}
	}
}
