package drain

import "strings"

// upgraded ends the wish of a host on its way to another release.
const upgraded = "upgrade-"

// Upgrade returns the wish of a host that is to be empty for an upgrade, by its id.
func Upgrade(id string) string { return Before(upgraded + id) }

// OfUpgrade reports whether a wish is that of a host which is to be empty for an
// upgrade. The loop that upgrades the host takes it back, and nobody else.
func OfUpgrade(wish string) bool { return strings.HasPrefix(wish, Before(upgraded)) }

// OfShutdown reports whether a wish is that of a host which shuts down, or did in an earlier boot.
func OfShutdown(wish string) bool { return strings.HasPrefix(wish, shuts) }

// AfterUpgrade returns the wish of a host that takes pods again after it has wished
// to be empty for an upgrade.
func AfterUpgrade(wish string) string { return After(strings.TrimPrefix(wish, drains)) }
