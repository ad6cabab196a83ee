package redfish

import (
	"context"
	"slices"
)

// System holds the answer of a controller about its system.
type System struct {
	Power PowerState
	// UUID, Serial and SKU are empty if the controller does not report them.
	// Dell puts the serial number of SMBIOS into SKU.
	UUID, Serial, SKU string
	Manufacturer      string
	Model             string
	// Resets are the reset types that it offers, empty if it lists none.
	Resets []ResetType
}

// Offers reports whether a reset type can be requested. A controller that lists
// none may support all of them.
func (s System) Offers(t ResetType) bool {
	return len(s.Resets) == 0 || slices.Contains(s.Resets, t)
}

// ReadSystem returns the system as it was last read. It makes a request for the reset
// types only if the controller lists them elsewhere.
func (c *Client) ReadSystem(ctx context.Context) (system System, err error) {
	err = c.call(ctx, "read the system", func(ctx context.Context) error {
		s := c.last.Load() // Open has read it
		system = System{
			Power: s.power, UUID: s.uuid, Serial: s.serial, SKU: s.sku,
			Manufacturer: s.manufacturer, Model: s.model,
		}
		system.Resets, err = c.types(ctx, *s)
		return err
	})
	return system, err
}

// Systems lists the paths of all systems that the controller answers for.
func (c *Client) Systems(ctx context.Context) (paths []string, err error) {
	err = c.call(ctx, "list the systems", func(ctx context.Context) error {
		paths, err = c.list(ctx)
		return err
	})
	return paths, err
}
