package redfish

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// meant returns an error unless a system is the one that the endpoint
// describes.
//
// An administrator's statement of what the controller reports has priority.
// Otherwise the UUID decides if both sides have one, and then the serial
// number. Serial numbers of one machine may differ, since iDRAC reports that of
// the board where SMBIOS has the service tag, and nodes of one chassis may
// share one. A placeholder that a vendor left in a field counts as not
// reported, on both sides: any number of machines have it. A system that
// reports nothing to compare cannot be told from another one.
func (e Endpoint) meant(uuid, serial, sku string) error {
	reports := reported{RealUUID(uuid), serialsOf(serial, sku)}
	if e.SystemID != "" {
		return reports.named(e.SystemID)
	}
	if e.UUID == "" && e.Serial == "" {
		return nil
	}
	wantUUID, wantSerial := RealUUID(e.UUID), RealSerial(e.Serial)
	sameSerial := wantSerial != "" && reports.has(wantSerial)
	switch {
	case wantUUID != "" && reports.uuid != "":
		if sameUUID(wantUUID, reports.uuid) {
			return nil
		}
		detail := fmt.Sprintf("it reports UUID %s where %s is expected", reports.uuid, wantUUID)
		if sameSerial {
			detail += ", although its serial number matches: if it is that machine, set systemID to this UUID (holdfast fencing rotate --uuid)"
		}
		return problem{WrongServer, detail}
	case sameSerial:
		return nil
	case wantSerial != "" && len(reports.serials) > 0:
		return problem{WrongServer, fmt.Sprintf("it reports serial number %s where %s is expected", reports.serials[0], wantSerial)}
	}
	return problem{WrongServer, "it reports nothing that can be compared with " + e.identity() + "; if the UUID or serial number that it reports is never the host's own, set systemID to it (holdfast fencing rotate --uuid)"}
}

// reported holds the answers by which a system differs from others.
type reported struct {
	uuid    string
	serials []string
}

func serialsOf(values ...string) []string {
	var out []string
	for _, v := range values {
		if v = RealSerial(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// has compares without regard to case.
func (r reported) has(serial string) bool {
	return slices.ContainsFunc(r.serials, func(s string) bool { return strings.EqualFold(s, serial) })
}

// named returns an error unless the system is the one that an administrator
// named, by its UUID or serial number.
func (r reported) named(id string) error {
	id = strings.TrimSpace(id)
	if r.uuid != "" && sameUUID(id, r.uuid) || r.has(id) {
		return nil
	}
	return problem{WrongServer, fmt.Sprintf("it reports UUID %s and serial number %s where systemID says %s", orNone(r.uuid), orNone(strings.Join(r.serials, " or ")), id)}
}

func orNone(s string) string {
	if s == "" {
		return "(none of its own)"
	}
	return s
}

// Machine identifies a machine: its UUID, its serial number, and the number
// under which it is sold, which for some vendors is the serial number of
// SMBIOS.
type Machine struct{ UUID, Serial, SKU string }

// SameMachine returns an error unless the UUID and serial number that a machine
// reports of itself match those that a controller reports. It does not compare
// what one side does not report.
func SameMachine(uuid, serial string, reports Machine) error {
	return Endpoint{UUID: uuid, Serial: serial}.meant(reports.UUID, reports.Serial, reports.SKU)
}

func (e Endpoint) identity() string {
	switch {
	case e.SystemID != "":
		return "systemID " + e.SystemID
	case e.Serial == "":
		return "UUID " + e.UUID
	case e.UUID == "":
		return "serial number " + e.Serial
	}
	return "UUID " + e.UUID + " and serial number " + e.Serial
}

// known reports whether the endpoint tells which machine is intended.
func (e Endpoint) known() bool { return e.SystemID != "" || e.UUID != "" || e.Serial != "" }

// placeholders are the texts, in lower case, that vendors leave in a field that
// they did not fill: any number of machines have them.
var placeholders = []string{
	"none", "null", "n/a", "na", "unknown", "not available", "not specified", "not applicable", "not set", "empty",
	"default", "default string", "system serial number", "serial number", "chassis serial number", "base board serial number",
	"to be filled by o.e.m.", "to be filled by oem", "o.e.m.", "oem", "openbmc", "invalid", "undefined", "unspecified",
	"0123456789", "123456789", "1234567890", "12345678", "...",
}

// RealUUID returns a UUID that identifies a machine, or nothing if the text is
// no UUID or a vendor's placeholder.
func RealUUID(s string) string {
	s = strings.TrimSpace(s)
	id, ok := uuidBytes(s)
	if !ok || oneByte(id[:]) || slices.Contains(vendorUUIDs, id) || slices.Contains(vendorUUIDs, swapped(id)) {
		return ""
	}
	return s
}

// RealSerial returns a serial number that identifies a machine, or nothing if
// it is a vendor's placeholder.
func RealSerial(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || oneByte([]byte(s)) || slices.Contains(placeholders, strings.ToLower(s)) {
		return ""
	}
	return s
}

// vendorUUIDs are the UUIDs that firmware has if nobody wrote one.
var vendorUUIDs = [][16]byte{
	{0x03, 0x00, 0x02, 0x00, 0x04, 0x00, 0x05, 0x00, 0x00, 0x06, 0x00, 0x07, 0x00, 0x08, 0x00, 0x09}, // AMI
	{0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x90, 0xab, 0xcd, 0xde, 0xef, 0xaa, 0xbb, 0xcc}, // AMI
	{0x12, 0x34, 0x56, 0x78, 0x90, 0xab, 0xcd, 0xef, 0x12, 0x34, 0x56, 0x78, 0x90, 0xab, 0xcd, 0xef},
	{0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f},
}

// oneByte reports whether the text repeats a single character: zeros, Fs, dots.
func oneByte(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != b[0] })
}

// sameUUID compares without regard to case, and to the order of bytes in the
// first three fields, in which SMBIOS and controllers are known to differ
// (DSP0134, 7.2.1).
func sameUUID(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, okX := uuidBytes(a)
	y, okY := uuidBytes(b)
	return okX && okY && (x == y || swapped(x) == y)
}

func uuidBytes(s string) (id [16]byte, ok bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return [16]byte(raw), true
}

func swapped(u [16]byte) [16]byte {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}
