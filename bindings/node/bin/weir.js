#!/usr/bin/env node
// weir.js: becomes the `weir` command that this package carries.
'use strict';
require('../weir.node').exec([require('..').command, ...process.argv.slice(2)]);
