package fence

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DMIDirVariable names the environment variable that says where this host's
// SMBIOS is to be read, for hosts that have none of their own.
const DMIDirVariable = "HOLDFAST_DMI_DIR"

// defaultDMIDir is where Linux shows the SMBIOS.
const defaultDMIDir = "/sys/class/dmi/id"

// agentEnvironment is where a host keeps the environment of its agent.
const agentEnvironment = "/etc/default/holdfast-agent"

// OwnIdentity returns UUID and serial number of this host as its SMBIOS tells
// them; either is empty where the machine has none. Only root can read them.
func OwnIdentity() (uuid, serial string, err error) {
	return identityIn(cmp.Or(os.Getenv(DMIDirVariable), variableIn(agentEnvironment, DMIDirVariable), defaultDMIDir))
}

func identityIn(dir string) (uuid, serial string, err error) {
	uuid, errUUID := readID(dir, "product_uuid")
	serial, errSerial := readID(dir, "product_serial")
	if uuid == "" && serial == "" {
		return "", "", fmt.Errorf("identity of this host: its SMBIOS tells neither UUID nor serial number: %w", errors.Join(errUUID, errSerial))
	}
	return uuid, serial, nil
}

// placeholders are what vendors leave in a field that they did not fill: any
// number of machines have them.
var placeholders = map[string]bool{
	"":                                     true,
	"none":                                 true,
	"0":                                    true,
	"default string":                       true,
	"not specified":                        true,
	"system serial number":                 true,
	"to be filled by o.e.m.":               true,
	"0123456789":                           true,
	"123456789":                            true,
	"00000000-0000-0000-0000-000000000000": true,
	"ffffffff-ffff-ffff-ffff-ffffffffffff": true,
	"03000200-0400-0500-0006-000700080009": true,
}

var errPlaceholder = errors.New("it holds what a vendor left there")

func readID(dir, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(data))
	if placeholders[strings.ToLower(id)] {
		return "", fmt.Errorf("%s: %w", name, errPlaceholder)
	}
	return id, nil
}

// variableIn reads one variable of a file of lines KEY=value.
func variableIn(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
