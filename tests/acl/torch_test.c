/* placeholder until the next step */
int main(void) { return 77; }
