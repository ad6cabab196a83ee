package redfish

import (
	"context"
	"slices"
)

// System is what a controller reports of its system in one answer.
type System struct {
	Power PowerState
	// UUID and Serial are empty where the controller does not report them.
	UUID, Serial string
	Manufacturer string
	Model        string
	// Resets are the reset types that it offers, empty where it names none.
	Resets []ResetType
}

// Offers reports whether a reset type can be asked for. A controller that
// names none may know all of them.
func (s System) Offers(t ResetType) bool {
	return len(s.Resets) == 0 || slices.Contains(s.Resets, t)
}

// Look tells what the system was when it was last read. Only a controller that
// names its reset types elsewhere is asked for them.
func (c *Client) Look(ctx context.Context) (system System, err error) {
	err = c.call(ctx, "read the system", func(ctx context.Context) error {
		s := c.lastRead(ctx)
		system = System{
			Power: PowerState(s.PowerState), UUID: s.UUID, Serial: s.SerialNumber,
			Manufacturer: s.Manufacturer, Model: s.Model,
		}
		offered, err := s.GetSupportedResetTypes()
		if err != nil {
			return err
		}
		for _, t := range offered {
			system.Resets = append(system.Resets, ResetType(t))
		}
		return nil
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
